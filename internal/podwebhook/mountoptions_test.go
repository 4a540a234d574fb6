// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	logtesting "knative.dev/pkg/logging/testing"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func TestAPodWithNoexecOnOurMountIsRefused(t *testing.T) {
	w, recorder := newWrapper(t, nil, found)
	wrapped := wrappedBy(t, w, review(t, "testdata/review.json"))
	encoded, err := json.Marshal(wrapped)
	require.NoError(t, err)
	var document map[string]any
	require.NoError(t, json.Unmarshal(encoded, &document))
	container := document["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
	for _, mount := range container["volumeMounts"].([]any) {
		mount.(map[string]any)["bindMountOptions"] = []any{"noexec"}
	}
	request := review(t, "testdata/review.json")
	request.Object.Raw, err = json.Marshal(document)
	require.NoError(t, err)
	response := w.admit(logtesting.TestContextWithLogger(t), request)
	require.False(t, response.Allowed)
	require.Contains(t, response.Result.Message, `pod "app-7d4b9-*" of ReplicaSet "app-7d4b9"`)
	require.Contains(t, response.Result.Message, `container "app" mounts volume "`+pod.VolumeName+`" at "/entrypointer/bin" with bindMountOptions: [noexec]`)
	require.Empty(t, recorder.Events, "controllers tell of a refusal themselves")
}
