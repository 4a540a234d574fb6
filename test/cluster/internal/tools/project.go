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

// A Project is what a cluster can have in other versions than that of programs/go.mod. Beside
// go.mod are files that say of which modules another version is built: kubernetes-1.37.mod
// and kubernetes-1.37.sum.
type Project struct {
	Name   string // of the files
	Title  string // for people
	Module string // whose version is the project's
}

// The projects.
var (
	KubernetesProject = Project{"kubernetes", "Kubernetes", "k8s.io/kubernetes"}
	TektonProject     = Project{"tekton", "Tekton", "github.com/tektoncd/pipeline"}
	KnativeProject    = Project{"knative", "Knative Serving", "knative.dev/serving"}
)

// Projects are all of them.
func Projects() []Project { return []Project{KubernetesProject, TektonProject, KnativeProject} }

// sources are the files of the programs' module, beside its modules, of which a project is
// built.
func (p Project) sources() []string {
	if p == KubernetesProject {
		return []string{"kubernetes/*.go"}
	}
	return nil
}

// OpenVersion reads of which modules another version of a project is built, "1.37" for
// instance. Only the programs of the project can be built of them.
func OpenVersion(l layout.Layout, dir string, p Project, version string) (Module, error) {
	return open(l, dir, p.Name+"-"+version, p.sources()...)
}

// Versions are the versions of a project that a directory has a file for, beside go.mod.
func Versions(dir string, p Project) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, p.Name+"-*.mod"))
	if err != nil {
		return nil, err
	}
	var versions []string
	for _, file := range files {
		versions = append(versions, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), p.Name+"-"), ".mod"))
	}
	return versions, nil
}

// VersionOf is the version of a project without its patch: "1.36".
func (m Module) VersionOf(p Project) string {
	return strings.TrimPrefix(semver.MajorMinor(m.versions[p.Module]), "v")
}

// Pin writes the files of a release of a project, "v1.37.2" for instance. All modules have the
// versions with which the release was made. The packages are those that are built.
func Pin(ctx context.Context, l layout.Layout, dir string, p Project, release string, packages func(context.Context, Module) ([]string, error)) error {
	if !semver.IsValid(release) || semver.Canonical(release) != release || semver.Prerelease(release) != "" {
		return fmt.Errorf("reading the release %q: it is none; give one such as v1.37.2", release)
	}
	if err := os.MkdirAll(l.Temporary(), 0o755); err != nil {
		return err
	}
	m := Module{layout: l, dir: dir, versions: map[string]string{p.Module: release}}
	m.name = p.Name + "-" + m.VersionOf(p)
	from, err := m.ModuleDir(ctx, p.Module)
	if err != nil {
		return err
	}
	its, err := os.ReadFile(filepath.Join(from, "go.mod"))
	if err != nil {
		return err
	}
	text, err := pinned(p, its, release)
	if err != nil {
		return fmt.Errorf("reading the go.mod of %s %s: %w", p.Title, release, err)
	}
	path := filepath.Join(dir, m.name+".mod")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(strings.TrimSuffix(path, ".mod")+".sum", nil, 0o644); err != nil {
		return err
	}
	if m, err = OpenVersion(l, dir, p, m.VersionOf(p)); err != nil {
		return err
	}
	built, err := packages(ctx, m)
	if err != nil {
		return err
	}
	// The go command adds the rest.
	log := l.BuildLogs("pin.log")
	return again(ctx, func() error {
		return writeLog(log, func(log io.Writer) error {
			_, err := lines(m.command(ctx, append([]string{"list", "-modfile=" + m.name + ".mod", "-deps"}, built...)...), log, func(string) {})
			return err
		})
	})
}

// pinned is a go.mod for a release of a project. The go.mod of a release of Kubernetes replaces
// modules by directories (k8s.io/api by ./staging/src/k8s.io/api); they are released as well.
func pinned(p Project, release []byte, version string) (text string, err error) {
	its, err := modfile.Parse("go.mod", release, nil)
	if err != nil {
		return "", err
	}
	text = fmt.Sprintf("module %s\n\ngo %s\n\nrequire %s %s\n", strings.TrimSuffix(own, "/"), its.Go.Version, p.Module, version)
	if p != KubernetesProject { // a Module knows the versions that its file has
		text += "\nrequire (\n"
		for _, r := range its.Require {
			text += "\t" + r.Mod.Path + " " + r.Mod.Version + " // indirect\n"
		}
		text += ")\n"
	}
	slices.SortFunc(its.Replace, func(a, b *modfile.Replace) int { return strings.Compare(a.Old.Path, b.Old.Path) })
	var replaced strings.Builder
	for _, r := range its.Replace {
		switch isDirectory := modfile.IsDirectoryPath(r.New.Path); {
		case isDirectory && p == KubernetesProject:
			fmt.Fprintf(&replaced, "\t%s => %s v0%s\n", r.Old.Path, r.Old.Path, strings.TrimPrefix(version, "v1"))
		case !isDirectory && p != KubernetesProject:
			fmt.Fprintf(&replaced, "\t%s => %s %s\n", strings.TrimSpace(r.Old.Path+" "+r.Old.Version), r.New.Path, r.New.Version)
		}
	}
	if replaced.Len() > 0 {
		text += "\nreplace (\n" + replaced.String() + ")\n"
	}
	return text, nil
}
