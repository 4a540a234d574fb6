// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/entrypointer/entrypointer/"

// TestImports keeps Kubernetes, and whatever else is not needed, out of the
// programs that go into every container. Tekton's entrypoint is 46 MB because
// nothing did that for it.
func TestImports(t *testing.T) {
	for _, cmd := range []string{"entrypoint", "copier", "withlogs/entrypoint", "withlogs/copier"} {
		out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
			module+"cmd/"+cmd).Output()
		require.NoError(t, err)
		for _, pkg := range strings.Fields(string(out)) {
			switch {
			case strings.HasPrefix(pkg, "golang.org/x/sys/"):
			case strings.HasPrefix(pkg, module+"internal/"), pkg == module+"pkg/exitcodes":
			case pkg == module+"cmd/"+cmd:
			default:
				t.Errorf("cmd/%s imports %s: it may import the standard library, golang.org/x/sys, %sinternal and pkg/exitcodes only", cmd, pkg, module)
			}
		}
		if strings.HasPrefix(cmd, "withlogs/") {
			continue // what sends logs needs the network
		}
		// These are in the standard library, and too heavy all the same.
		out, err = exec.Command("go", "list", "-deps", module+"cmd/"+cmd).Output()
		require.NoError(t, err)
		for _, pkg := range strings.Fields(string(out)) {
			switch pkg {
			case "fmt", "flag", "net", "os/exec", "encoding/json":
				t.Errorf("cmd/%s imports %s, which costs start-up time and size", cmd, pkg)
			}
		}
	}
}

// TestSize guards the limit; how far we are from it is what make
// bench-supervisor reports.
func TestSize(t *testing.T) {
	for _, name := range []string{"entrypoint", "copier"} {
		info, err := os.Stat(filepath.Join(binDir, name))
		require.NoError(t, err)
		require.LessOrEqual(t, info.Size(), int64(8<<20), name)
	}
}
