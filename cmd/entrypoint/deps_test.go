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

// TestImports keeps Kubernetes and other unneeded packages out of the programs that are
// copied into every container. Tekton's entrypoint has 46 MB without such a test.
func TestImports(t *testing.T) {
	for _, cmd := range []string{"entrypoint", "copier", "withlogs/entrypoint", "withlogs/copier"} {
		out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
			module+"cmd/"+cmd).Output()
		require.NoError(t, err)
		for _, pkg := range strings.Fields(string(out)) {
			switch {
			case strings.HasPrefix(pkg, "golang.org/x/sys/"):
			case strings.HasPrefix(pkg, module+"internal/"), pkg == module+"pkg/conditions", pkg == module+"pkg/exitcodes", pkg == module+"pkg/traceids":
			case pkg == module+"cmd/"+cmd:
			default:
				t.Errorf("cmd/%s imports %s: it may import the standard library, golang.org/x/sys, %sinternal, pkg/conditions, pkg/exitcodes and pkg/traceids only", cmd, pkg, module)
			}
		}
		if strings.HasPrefix(cmd, "withlogs/") {
			continue // the programs that send logs need the network
		}
		// These packages of the standard library are too large.
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

// TestSize enforces the limit. "make bench-supervisor" reports the actual size.
func TestSize(t *testing.T) {
	for _, name := range []string{"entrypoint", "copier"} {
		info, err := os.Stat(filepath.Join(binDir, name))
		require.NoError(t, err)
		require.LessOrEqual(t, info.Size(), int64(8<<20), name)
	}
}
