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

func TestEachVersionOfKubernetesIsOneRelease(t *testing.T) {
	versions, err := KubernetesVersions(programs)
	if err != nil || len(versions) == 0 {
		t.Fatal(versions, err)
	}
	readme, err := os.ReadFile(filepath.Join(top, "test", "cluster", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	ours, err := Open(layout.Layout{}, programs)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		m, err := OpenKubernetes(layout.Layout{}, programs, version)
		if err != nil {
			t.Fatal(err)
		}
		release, err := m.KubernetesRelease()
		if err != nil || m.Kubernetes() != version || version == ours.Kubernetes() {
			t.Errorf("%s.mod: it is Kubernetes %s (%v), and programs/go.mod has %s", m.name, release, err, ours.Kubernetes())
		}
		if !strings.Contains(string(readme), strings.TrimPrefix(release, "v")) {
			t.Errorf("README.md doesn't name Kubernetes %s", release)
		}
		text, err := os.ReadFile(filepath.Join(programs, m.name+".mod"))
		if err != nil {
			t.Fatal(err)
		}
		file, err := modfile.Parse(m.name, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range file.Replace {
			if r.New.Path != r.Old.Path || r.New.Version != "v0"+strings.TrimPrefix(release, "v1") {
				t.Errorf("%s.mod: %s is %s %s, which isn't of %s", m.name, r.Old.Path, r.New.Path, r.New.Version, release)
			}
		}
	}
}

func TestAReleaseOfKubernetesIsPinned(t *testing.T) {
	const release = `module k8s.io/kubernetes

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
	const want = `module github.com/entrypointer/entrypointer/test/cluster/programs

go 1.26.0

require k8s.io/kubernetes v1.37.2

replace (
	k8s.io/api => k8s.io/api v0.37.2
	k8s.io/kubelet => k8s.io/kubelet v0.37.2
)
`
	if got, err := pinned([]byte(release), "v1.37.2"); err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestOnlyAReleaseIsPinned(t *testing.T) {
	for _, release := range []string{"", "1.37.2", "v1.37", "v1.38.0-rc.1", "latest"} {
		if err := Pin(t.Context(), layout.Layout{Cache: t.TempDir()}, t.TempDir(), release); err == nil || !strings.Contains(err.Error(), "v1.37.2") {
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
