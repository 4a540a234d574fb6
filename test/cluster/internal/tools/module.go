// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

// Module is test/cluster/programs. Its go.mod says in which version everything
// runs, and its packages are programs of which a release has no main that
// leaves out what we don't need. Other files beside go.mod say of which modules
// other versions of a [Project] are built.
type Module struct {
	layout   layout.Layout
	dir      string
	name     string            // of its file in dir, and of the copy that the go command reads
	versions map[string]string // by path of the module
	key      string            // tells what is built of it from what was
}

// Open reads the module in a directory.
func Open(l layout.Layout, dir string) (Module, error) {
	return open(l, dir, "go", "*/*.go")
}

// open reads the files NAME.mod and NAME.sum of a directory, and the programs.
func open(l layout.Layout, dir, name string, programs ...string) (Module, error) {
	texts, err := sources(dir, append([]string{name + ".mod", name + ".sum"}, programs...)...)
	if err != nil {
		return Module{}, fmt.Errorf("looking for what to build: %w; run this in the directory test/cluster", err)
	}
	file, err := modfile.Parse(name+".mod", texts[name+".mod"], nil)
	if err != nil {
		return Module{}, fmt.Errorf("reading %q: %w", dir, err)
	}
	m := Module{layout: l, dir: dir, name: name, versions: map[string]string{}}
	for _, r := range file.Require {
		m.versions[r.Mod.Path] = r.Mod.Version
	}
	var parts []string
	for _, name := range sortedKeys(texts) {
		parts = append(parts, name, string(texts[name]))
	}
	m.key = hash(append(parts, Flags, noDNSProviders, noECS)...)
	return m, nil
}

// sources are the module's own files, by their paths in it.
func sources(dir string, patterns ...string) (map[string][]byte, error) {
	texts := map[string][]byte{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("%q has no %s", dir, pattern)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			name, err := filepath.Rel(dir, file)
			if err != nil {
				return nil, err
			}
			texts[name] = text
		}
	}
	return texts, nil
}

func sortedKeys(texts map[string][]byte) []string {
	var keys []string
	for key := range texts {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// Version is the version of a module that runs.
func (m Module) Version(path string) (string, error) {
	if version, ok := m.versions[path]; ok {
		return version, nil
	}
	return "", fmt.Errorf("looking for the version of %q: %s doesn't require it", path, filepath.Join(m.dir, m.name+".mod"))
}

// ldflags drop symbol tables, and tell programs which versions they are, in the
// variables in which their own builds do. What has no such variable ignores it.
func (m Module) ldflags() string {
	kubernetes := m.versions[KubernetesProject.Module]
	major, minor, _ := strings.Cut(strings.TrimPrefix(semver.MajorMinor(kubernetes), "v"), ".")
	flags := "-s -w"
	for _, set := range [][2]string{
		{"k8s.io/component-base/version.gitVersion", kubernetes},
		{"k8s.io/component-base/version.gitMajor", major},
		{"k8s.io/component-base/version.gitMinor", minor},
		{"github.com/containerd/containerd/v2/version.Version", m.versions["github.com/containerd/containerd/v2"]},
		{"github.com/traefik/traefik/v3/pkg/version.Version", m.versions["github.com/traefik/traefik/v3"]},
		{"github.com/google/ko/pkg/commands.Version", m.versions["github.com/google/ko"]},
		{"github.com/google/go-containerregistry/cmd/crane/cmd.Version", m.versions["github.com/google/go-containerregistry"]},
	} {
		flags += " -X " + set[0] + "=" + set[1]
	}
	return flags
}

// hash is short, for names of files.
func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:4])
}
