// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
)

func TestAPatchIsEncodedAsItsLibraryEncodesIt(t *testing.T) {
	patch := []jsonpatch.Operation{
		jsonpatch.NewOperation("add", "/spec/containers/0/args", []string{"<a>", "&"}),
		jsonpatch.NewOperation("add", "/spec/containers/0/command", []string(nil)),
		jsonpatch.NewOperation("add", "/metadata/annotations", map[string]string{"b": "1", "a": ""}),
		jsonpatch.NewOperation("replace", "/spec/initContainers/0", corev1.Container{Name: "copier"}),
		jsonpatch.NewOperation("replace", "/spec/hostname", nil),
		jsonpatch.NewOperation("add", "/spec/hostname", ""),
		jsonpatch.NewOperation("remove", "/spec/volumes/1", nil),
	}
	want, err := json.Marshal(patch)
	require.NoError(t, err)
	require.Equal(t, string(want), string(Allow(patch).Patch))
}
