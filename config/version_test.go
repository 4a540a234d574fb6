// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

type object = map[string]any

// withoutVersion takes the label of the version away, which must be there.
func withoutVersion(t *testing.T, labelled object) {
	t.Helper()
	labels := labelled["metadata"].(object)["labels"].(object)
	require.Equal(t, "v1.2.3-rc.1", labels[VersionLabel])
	delete(labels, VersionLabel)
}

func TestAReleaseLabelsItsObjectsAndPodsAndNothingElse(t *testing.T) {
	names, err := fs.Glob(Manifests, "*/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		text, err := fs.ReadFile(Manifests, name)
		require.NoError(t, err)
		labelled := strings.Split(WithVersion(string(text), "v1.2.3-rc.1"), "\n---\n")
		for at, document := range strings.Split(string(text), "\n---\n") {
			var before, after object
			require.NoError(t, yaml.Unmarshal([]byte(document), &before))
			require.NoError(t, yaml.Unmarshal([]byte(labelled[at]), &after))
			withoutVersion(t, after)
			if before["kind"] == "Deployment" {
				withoutVersion(t, after["spec"].(object)["template"].(object))
			}
			require.Equal(t, before, after, name)
			require.Equal(t, strings.Count(document, "#"), strings.Count(labelled[at], "#"), "a comment is lost")
		}
	}
}
