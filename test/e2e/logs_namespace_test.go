// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

func TestTheNextOwnerOfANamespacesNameReadsNothingOfTheFormerOne(t *testing.T) {
	t.Parallel()
	service, kubectl := logService(t), newPlugin(t)
	namespace := plainNamespace(t)
	prints := func(text string) (path string) {
		created := createPod(t, namespace, plainPod("prints", busybox(t, "main", forever...)))
		waitUntilRunning(t, namespace, "prints")
		token := tokenOf(t, namespace, "default", endpoint.Audience, created)
		path = service.stream(token, `{"name":"stdout","container":"main","start":"1"}`)
		status, answer := service.patch(path, token, text, "bytes 0-6/7")
		require.Equal(t, http.StatusAccepted, status, answer)
		return path
	}
	requireText := func(path, token, text string) {
		t.Helper()
		status, answer := service.do(http.MethodGet, path+"/data", token, "")
		require.Equal(t, http.StatusOK, status, answer)
		require.Equal(t, text, answer)
	}
	list := "/logs?pod=prints&namespace=" + namespace

	former := prints("former\n")
	requireText(former, reader(t, namespace, "owner", true), "former\n")
	require.NoError(t, cluster.Kube.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}))
	waitUntilNamespaceIsGone(t, namespace)
	require.Equal(t, "former\n", kubectl.reads(t, "", "former", "-n", namespace, "prints"), "an administrator reads it")

	_, err := cluster.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{ours: "true"}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, patience, "the service account of the new namespace", func() error {
		_, err := cluster.Kube.CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	next := reader(t, namespace, "owner", true)
	status, answer := service.do(http.MethodGet, list, next, "")
	require.Equal(t, http.StatusOK, status, answer)
	require.JSONEq(t, `{"logs":[]}`, answer)
	status, answer = service.do(http.MethodGet, former+"/data", next, "")
	require.Equal(t, http.StatusForbidden, status, answer)
	require.Contains(t, answer, "in all namespaces")

	now := prints("latter\n")
	requireText(now, next, "latter\n")
	require.Equal(t, "latter\n", kubectl.reads(t, withToken(t, next), "latter", "-n", namespace, "prints"))
	both := kubectl.reads(t, "", "latter", "-n", namespace, "prints")
	require.Contains(t, both, "former\n", "an administrator reads both")
}
