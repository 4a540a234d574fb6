// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

var programs = filepath.Join(top, "test", "cluster", "programs")

func TestEachVersionOfAProjectIsOneRelease(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(top, "test", "cluster", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	ours, err := Open(layout.Layout{}, programs)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Projects() {
		versions, err := Versions(programs, p)
		if err != nil || len(versions) == 0 {
			t.Fatal(p.Title, versions, err)
		}
		for _, version := range versions {
			m, err := OpenVersion(layout.Layout{}, programs, p, version)
			if err != nil {
				t.Fatal(err)
			}
			release, err := m.Version(p.Module)
			if err != nil || m.VersionOf(p) != version || version == ours.VersionOf(p) {
				t.Errorf("%s.mod: it is %s %s (%v), and programs/go.mod has %s", m.name, p.Title, release, err, ours.VersionOf(p))
			}
			if !strings.Contains(string(readme), strings.TrimPrefix(release, "v")) {
				t.Errorf("README.md doesn't name %s %s", p.Title, release)
			}
		}
	}
}

func TestKubernetesConsistsOfModulesOfOneRelease(t *testing.T) {
	versions, err := Versions(programs, KubernetesProject)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		name := KubernetesProject.Name + "-" + version + ".mod"
		text, err := os.ReadFile(filepath.Join(programs, name))
		if err != nil {
			t.Fatal(err)
		}
		file, err := modfile.Parse(name, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range file.Replace {
			if r.New.Path != r.Old.Path || !strings.HasPrefix(r.New.Version, "v0."+strings.TrimPrefix(version, "1.")+".") {
				t.Errorf("%s: %s is %s %s, which isn't of %s", name, r.Old.Path, r.New.Path, r.New.Version, version)
			}
		}
	}
}

func TestAReleaseOfAProjectIsPinned(t *testing.T) {
	const release = `module of.a/project

go 1.26.0

godebug default=go1.26

require (
	github.com/spf13/cobra v1.10.2
	k8s.io/api v0.0.0
)

replace (
	k8s.io/kubelet => ./staging/src/k8s.io/kubelet
	k8s.io/api => ./staging/src/k8s.io/api
	example.test/fork => example.test/other v1.0.0
)
`
	for p, want := range map[Project]string{
		KubernetesProject: `module github.com/entrypointer/entrypointer/test/cluster/programs

go 1.26.0

require k8s.io/kubernetes v1.37.2

replace (
	k8s.io/api => k8s.io/api v0.37.2
	k8s.io/kubelet => k8s.io/kubelet v0.37.2
)
`,
		TektonProject: `module github.com/entrypointer/entrypointer/test/cluster/programs

go 1.26.0

require github.com/tektoncd/pipeline v1.37.2

require (
	github.com/spf13/cobra v1.10.2 // indirect
	k8s.io/api v0.0.0 // indirect
)

replace (
	example.test/fork => example.test/other v1.0.0
)
`,
	} {
		got, err := pinned(p, []byte(release), "v1.37.2")
		if err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", p.Title, got, err, want)
		}
	}
}

func TestOnlyAReleaseIsPinned(t *testing.T) {
	for _, release := range []string{"", "1.37.2", "v1.37", "v1.38.0-rc.1", "latest"} {
		if err := Pin(t.Context(), layout.Layout{Cache: t.TempDir()}, t.TempDir(), KubernetesProject, release, nil); err == nil || !strings.Contains(err.Error(), "v1.37.2") {
			t.Errorf("%q: got %v", release, err)
		}
	}
}

func TestKubernetesIsBuiltBesideTheRest(t *testing.T) {
	var names, all []string
	for _, p := range append(append([]Program{}, Kubernetes.Programs...), Beside.Programs...) {
		names = append(names, p.Package)
	}
	for _, p := range Node.Programs {
		all = append(all, p.Package)
	}
	if strings.Join(names, " ") != strings.Join(all, " ") {
		t.Errorf("%q and %q aren't the same", names, all)
	}
}
