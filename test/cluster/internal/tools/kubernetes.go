// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

// kubernetesModule is the module whose version is that of Kubernetes.
const kubernetesModule = "k8s.io/kubernetes"

// filePrefix is what the names of the files begin with that say of which modules a
// version of Kubernetes is built: kubernetes-1.37.mod and kubernetes-1.37.sum.
const filePrefix = "kubernetes-"

// OpenKubernetes reads of which modules another version of Kubernetes is built, "1.37"
// for instance. Only the group Kubernetes can be built of them.
func OpenKubernetes(l layout.Layout, dir, version string) (Module, error) {
	return open(l, dir, filePrefix+version, "kubernetes/*.go")
}

// KubernetesVersions are the versions of Kubernetes that a directory has a file for,
// beside go.mod.
func KubernetesVersions(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, filePrefix+"*.mod"))
	if err != nil {
		return nil, err
	}
	var versions []string
	for _, file := range files {
		versions = append(versions, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), filePrefix), ".mod"))
	}
	return versions, nil
}

// Kubernetes is the version of Kubernetes without its patch: "1.36".
func (m Module) Kubernetes() string {
	return strings.TrimPrefix(semver.MajorMinor(m.versions[kubernetesModule]), "v")
}

// KubernetesRelease is the release of Kubernetes: "v1.36.3".
func (m Module) KubernetesRelease() (string, error) { return m.Version(kubernetesModule) }

// Pin writes the files of a release of Kubernetes, "v1.37.2" for instance. All modules
// have the versions with which the release was made.
func Pin(ctx context.Context, l layout.Layout, dir, release string) error {
	if !semver.IsValid(release) || semver.Canonical(release) != release || semver.Prerelease(release) != "" {
		return fmt.Errorf("reading the release %q: it is none; give one such as v1.37.2", release)
	}
	if err := os.MkdirAll(l.Temporary(), 0o755); err != nil {
		return err
	}
	m := Module{layout: l, dir: dir, versions: map[string]string{kubernetesModule: release}}
	m.name = filePrefix + m.Kubernetes()
	from, err := m.ModuleDir(ctx, kubernetesModule)
	if err != nil {
		return err
	}
	its, err := os.ReadFile(filepath.Join(from, "go.mod"))
	if err != nil {
		return err
	}
	text, err := pinned(its, release)
	if err != nil {
		return fmt.Errorf("reading the go.mod of Kubernetes %s: %w", release, err)
	}
	path := filepath.Join(dir, m.name+".mod")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(strings.TrimSuffix(path, ".mod")+".sum", nil, 0o644); err != nil {
		return err
	}
	// The go command adds the rest.
	return again(ctx, func() error {
		_, err := lines(m.command(ctx, append([]string{"list", "-modfile=" + path, "-deps"}, Kubernetes.packages()...)...), io.Discard, func(string) {})
		return err
	})
}

// pinned is a go.mod for a release of Kubernetes. The release's own go.mod replaces modules
// by directories (k8s.io/api by ./staging/src/k8s.io/api); they are released as well.
func pinned(release []byte, version string) (string, error) {
	its, err := modfile.Parse("go.mod", release, nil)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("module %s\n\ngo %s\n\nrequire %s %s\n\nreplace (\n", strings.TrimSuffix(own, "/"), its.Go.Version, kubernetesModule, version)
	slices.SortFunc(its.Replace, func(a, b *modfile.Replace) int { return strings.Compare(a.Old.Path, b.Old.Path) })
	for _, r := range its.Replace {
		if modfile.IsDirectoryPath(r.New.Path) {
			text += fmt.Sprintf("\t%s => %s v0%s\n", r.Old.Path, r.Old.Path, strings.TrimPrefix(version, "v1"))
		}
	}
	return text + ")\n", nil
}
