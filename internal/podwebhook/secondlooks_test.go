// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/logging"
)

// wrappedBy returns the pod that a wrapper makes of the pod of a request.
func wrappedBy(t *testing.T, w *wrapper, request *admissionv1.AdmissionRequest) *corev1.Pod {
	t.Helper()
	var before corev1.Pod
	require.NoError(t, json.Unmarshal(request.Object.Raw, &before))
	namespace, refused := w.optedIn(t.Context(), request)
	require.Nil(t, refused)
	result, err := w.decide(t.Context(), namespace, &before)
	require.NoError(t, err)
	return result.Pod
}

func TestWhatHadAnAPIServerAskTwiceIsLoggedOnce(t *testing.T) {
	w, _ := newWrapper(t, nil, found)
	core, logs := observer.New(zapcore.InfoLevel)
	ctx := logging.WithLogger(context.Background(), zap.New(core).Sugar())
	wrapped := wrappedBy(t, w, review(t, "testdata/review.json"))
	twice := func(i int, change func(*corev1.Pod)) {
		p := wrapped.DeepCopy()
		p.Name = fmt.Sprint("p-", i)
		change(p)
		require.True(t, w.admit(ctx, asking(t, review(t, "testdata/review.json"), p)).Allowed)
	}
	require.True(t, w.admit(ctx, review(t, "testdata/review.json")).Allowed)
	for i := range 3 {
		twice(i, func(p *corev1.Pod) { p.Labels = map[string]string{fmt.Sprint("theirs-", i): "x"} })
		twice(i, func(p *corev1.Pod) {
			c := &p.Spec.InitContainers[0]
			c.Env = []corev1.EnvVar{{Name: fmt.Sprint("THEIRS_", i)}}
			c.ImagePullPolicy = corev1.PullAlways
		})
	}
	var changed []any
	for _, line := range logs.FilterMessageSnippet("Asked twice").All() {
		changed = append(changed, line.ContextMap()["changed"])
		require.Equal(t, "p-0", line.ContextMap()["pod"])
	}
	require.Equal(t, []any{elsewhere, "env", "imagePullPolicy"}, changed)
}
