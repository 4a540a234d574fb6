// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
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
