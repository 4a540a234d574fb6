// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	logtesting "knative.dev/pkg/logging/testing"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

func TestTheLogServiceIsFoundAndForgotten(t *testing.T) {
	e := endpoint.Endpoint{Address: "https://logs.entrypointer-logs.svc", IP: "10.96.3.4", CA: "sha256:" + strings.Repeat("a", 64)}
	there := func(data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: endpoint.Namespace, Name: endpoint.ConfigMap}, Data: data}
	}
	resource := schema.GroupResource{Resource: "configmaps"}
	var found *corev1.ConfigMap
	var failure error
	client := fake.NewClientset()
	client.PrependReactor("get", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		require.Equal(t, endpoint.ConfigMap, action.(clienttesting.GetAction).GetName())
		require.Equal(t, endpoint.Namespace, action.GetNamespace())
		return true, found, failure
	})
	l := &logService{client: client, logger: logtesting.TestLogger(t)}
	images := Images{CopierWithLogs: "copier", EntrypointWithLogs: "entrypoint"}
	want := &pod.LogService{Address: e.Address, IP: e.IP, CA: e.CA, Audience: endpoint.Audience, CopierImage: "copier", EntrypointImage: "entrypoint"}
	for _, step := range []struct {
		what    string
		found   *corev1.ConfigMap
		failure error
		want    *pod.LogService
	}{
		{"none is installed", nil, apierrors.NewForbidden(resource, endpoint.ConfigMap, nil), nil},
		{"it isn't ready", nil, apierrors.NewNotFound(resource, endpoint.ConfigMap), nil},
		{"it is there", there(e.Data()), nil, want},
		{"the API server is away", nil, errors.New("connection refused"), want},
		{"somebody has changed it", there(map[string]string{"address": "http://elsewhere"}), nil, want},
		{"it is gone", nil, apierrors.NewNotFound(resource, endpoint.ConfigMap), nil},
	} {
		found, failure = step.found, step.failure
		l.look(t.Context())
		require.Equal(t, step.want, l.forPods(images), step.what)
	}
}

func TestThePodsOfANamespaceSendTheirLogsOnceThereIsAService(t *testing.T) {
	w, _ := newWrapper(t, map[string]string{"defaults": "logs: stream"}, found)
	request := review(t, "testdata/review.json")
	response := w.admit(logtesting.TestContextWithLogger(t), request)
	require.True(t, response.Allowed)
	require.Len(t, response.Warnings, 1)
	require.Contains(t, response.Warnings[0], "no log service is installed")

	w.logs.current.Store(&endpoint.Endpoint{Address: "https://logs.entrypointer-logs.svc", CA: "sha256:" + strings.Repeat("a", 64)})
	response = w.admit(logtesting.TestContextWithLogger(t), request)
	require.True(t, response.Allowed)
	require.Empty(t, response.Warnings)
	require.Contains(t, string(response.Patch), `"-logs=stream","-logs-to=https://logs.entrypointer-logs.svc"`)
	require.Contains(t, string(response.Patch), `"image":"copier-with-logs"`)
	require.Contains(t, string(response.Patch), `"audience":"entrypointer-logs"`)
}
