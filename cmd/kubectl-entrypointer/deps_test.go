// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImports keeps kustomize and the clients of all APIs out of the plugin, which more than
// double its size. Of the types, it has those that pods consist of.
func TestImports(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	packages := strings.Fields(string(out))
	require.Contains(t, packages, "k8s.io/client-go/rest")
	for _, pkg := range packages {
		for _, large := range []string{"sigs.k8s.io/kustomize/", "k8s.io/cli-runtime/", "k8s.io/client-go/kubernetes/", "k8s.io/api/apps/"} {
			if strings.HasPrefix(pkg+"/", large) {
				t.Errorf("cmd/kubectl-entrypointer imports %s: it reads JSON, and needs few types of APIs", pkg)
			}
		}
	}
}

// TestEveryDesktopCanHaveIt finds imports of packages that other systems don't have. To
// compile the plugin for them takes minutes.
func TestEveryDesktopCanHaveIt(t *testing.T) {
	t.Parallel()
	for _, system := range []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"} {
		name, architecture, _ := strings.Cut(system, "/")
		command := exec.Command("go", "list", "-deps", ".")
		command.Env = append(os.Environ(), "GOOS="+name, "GOARCH="+architecture, "CGO_ENABLED=0")
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s: %s", system, out)
	}
}
