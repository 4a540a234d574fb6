// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/configmap"
	logtesting "knative.dev/pkg/logging/testing"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/lookup"
)

// lookups answers as told: pkg/lookup tests how answers come about.
type lookups func(context.Context, lookup.Query) (*lookup.Image, error)

func (l lookups) Lookup(ctx context.Context, query lookup.Query) (*lookup.Image, error) {
	return l(ctx, query)
}

func newWrapper(t *testing.T, data map[string]string, answer lookups) *wrapper {
	t.Helper()
	watcher := &configmap.ManualWatcher{}
	w := &wrapper{copierImage: "copier", config: config.NewStore(logtesting.TestLogger(t), watcher), lookup: answer}
	watcher.OnChange(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: config.Name}, Data: data})
	return w
}

// review is an AdmissionReview as an API server sent it.
func review(t *testing.T, file string) *admissionv1.AdmissionRequest {
	t.Helper()
	saved, err := os.ReadFile(file)
	require.NoError(t, err)
	var review admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(saved, &review))
	return review.Request
}

func missing(_ context.Context, query lookup.Query) (*lookup.Image, error) {
	return nil, &lookup.Error{Query: query, Reason: lookup.NotFound, Err: os.ErrNotExist}
}

func TestAPodIsPatched(t *testing.T) {
	w := newWrapper(t, nil, func(_ context.Context, query lookup.Query) (*lookup.Image, error) {
		require.Equal(t, lookup.Query{Image: "busybox", Namespace: "tenant", ServiceAccount: "default", PullSecrets: []string{"pull"}}, query)
		return &lookup.Image{Pinned: "busybox@sha256:0", Configs: []lookup.Config{{Platform: "linux/amd64", Cmd: []string{"sh"}}}}, nil
	})
	response := w.admit(logtesting.TestContextWithLogger(t), review(t, "testdata/review.json"))
	require.True(t, response.Allowed)
	require.Equal(t, admissionv1.PatchTypeJSONPatch, *response.PatchType)
	require.Contains(t, string(response.Patch), `"path":"/spec/initContainers"`)
	require.Contains(t, string(response.Patch), `["--","sh"]`)
}

func TestARefusalNamesThePodByWhatItsAuthorKnows(t *testing.T) {
	response := newWrapper(t, nil, missing).admit(logtesting.TestContextWithLogger(t), review(t, "testdata/review.json"))
	require.False(t, response.Allowed)
	require.Equal(t, int32(http.StatusForbidden), response.Result.Code)
	for _, says := range []string{`pod "app-7d4b9-*" of ReplicaSet "app-7d4b9"`, `container "app"`, `image "busybox"`, "set command:"} {
		require.Contains(t, response.Result.Message, says)
	}
}

func TestAWaivedLookupWarns(t *testing.T) {
	w := newWrapper(t, map[string]string{"failed-lookup": "admit"}, missing)
	response := w.admit(logtesting.TestContextWithLogger(t), review(t, "testdata/review.json"))
	require.True(t, response.Allowed)
	require.Empty(t, response.Patch)
	require.Len(t, response.Warnings, 1)
}

func TestTheAnswerComesBeforeTheAPIServerGivesUp(t *testing.T) {
	for query, want := range map[string]time.Duration{
		"":              3 * time.Second,
		"timeout=10s":   3 * time.Second,
		"timeout=2s":    1500 * time.Millisecond,
		"timeout=100ms": 3 * time.Second, // hopeless; the API server's timeouts are whole seconds
		"timeout=soon":  3 * time.Second,
	} {
		ctx := apis.WithHTTPRequest(t.Context(), &http.Request{URL: &url.URL{RawQuery: query}})
		require.Equal(t, want, budget(ctx, 3*time.Second), query)
	}
}

func TestAnObjectThatIsNoPodIsRefused(t *testing.T) {
	request := &admissionv1.AdmissionRequest{}
	request.Object.Raw = []byte("[]")
	require.False(t, newWrapper(t, nil, missing).admit(t.Context(), request).Allowed)
}
