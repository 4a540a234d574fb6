// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func TestANamespaceIsWarnedOfAnnotationsThatAreForPods(t *testing.T) {
	const forPods = " has no effect on a namespace: it is for pods"
	for annotation, says := range map[string]string{
		"entrypointer.dev/inject":      "",
		"entrypointer.dev/timeout":     "",
		"timeout":                      "",
		"timeout.entrypointer.dev/app": "entrypointer: annotation timeout.entrypointer.dev/app" + forPods,
		"entrypointer.dev/containers":  "entrypointer: annotation entrypointer.dev/containers" + forPods,
		"entrypointer.dev/status":      "entrypointer: annotation entrypointer.dev/status" + forPods,
		"entrypointer.dev/colour":      "entrypointer: annotation entrypointer.dev/colour is unknown and has no effect",
		"colour.entrypointer.dev/app":  "entrypointer: annotation colour.entrypointer.dev/app is unknown and has no effect",
	} {
		warnings := pod.IgnoredOnNamespace(map[string]string{annotation: "1h"})
		if says == "" {
			require.Empty(t, warnings, annotation)
			continue
		}
		require.Equal(t, []string{says}, warnings, annotation)
	}
}
