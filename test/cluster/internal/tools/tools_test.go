// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

// fake is a tool that counts how often it is built.
func fake(version string, builds *int) Tool {
	return Tool{
		Name: "fake", Version: version, Binaries: []string{"fake"},
		build: func(_ context.Context, _ golang, _ Tool, into string) error {
			*builds++
			return os.WriteFile(filepath.Join(into, "fake"), []byte(version), 0o755)
		},
	}
}

func TestBuildOncePerVersion(t *testing.T) {
	l := layout.Layout{Cache: t.TempDir()}
	builds := 0
	for _, step := range []struct {
		version string
		builds  int
	}{{"v1", 1}, {"v1", 1}, {"v2", 2}, {"v1", 2}} {
		if err := fake(step.version, &builds).Build(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		if builds != step.builds {
			t.Errorf("%s: built %d times, want %d", step.version, builds, step.builds)
		}
		if linked, err := os.ReadFile(l.Bin("fake")); err != nil || string(linked) != step.version {
			t.Errorf("%s: linked is %q, %v", step.version, linked, err)
		}
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	l := layout.Layout{Cache: t.TempDir()}
	broken := fake("v1", new(int))
	broken.build = func(context.Context, golang, Tool, string) error { return errors.New("broken") }
	if err := broken.Build(t.Context(), l); err == nil || !strings.Contains(err.Error(), "the last lines of") {
		t.Errorf("Build: got %v, want an error with the log's end", err)
	}
	if left, _ := os.ReadDir(l.Tools()); len(left) != 0 {
		t.Errorf("tools: %v is left", left)
	}
}

func TestKeyChangesWithSource(t *testing.T) {
	was := Kubernetes
	defer func() { Kubernetes = was }()
	dir := t.TempDir()
	seen := map[string]bool{}
	for _, files := range [][2]string{{"module a", "package main"}, {"module b", "package main"}, {"module b", "package main // b"}} {
		for i, name := range []string{"go.mod", "main.go"} {
			path := filepath.Join(dir, "kubernetes", name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(files[i]), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := UseSource(dir); err != nil {
			t.Fatal(err)
		}
		seen[Kubernetes.id()] = true
	}
	if len(seen) != 3 {
		t.Errorf("id: %d for 3 sources", len(seen))
	}
	if err := UseSource(t.TempDir()); err == nil || !strings.Contains(err.Error(), "test/cluster") {
		t.Errorf("UseSource of another directory: got %v, want an error that says where to be", err)
	}
}

func TestUnusedDrivers(t *testing.T) {
	const text = `import (
	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/azure"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)
`
	got := unusedDrivers.ReplaceAllString(text, "")
	if strings.Contains(got, "azure") || !strings.Contains(got, "filesystem") || !strings.Contains(got, "v3/registry\"") {
		t.Errorf("left: %s", got)
	}
}
