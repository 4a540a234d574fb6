// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"knative.dev/pkg/version"
)

// The injector exits on an API server that is older than what knative.dev/pkg takes.
func TestThePagesSayWhichKubernetesTheInjectorTakes(t *testing.T) {
	parts := strings.Split(strings.TrimPrefix(version.DefaultKubernetesMinVersion, "v"), ".")
	least := "Kubernetes " + parts[0] + "." + parts[1]
	for page, says := range map[string]string{"README.md": "from " + least, "docs/compatibility.md": "| the injector | " + least} {
		text, err := os.ReadFile(filepath.Join("..", "..", page))
		require.NoError(t, err)
		require.Contains(t, string(text), says, page)
	}
}
