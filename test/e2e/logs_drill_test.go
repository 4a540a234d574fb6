// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/test/framework"
)

const logsAPIService = endpoint.Version + "." + endpoint.Group

// requireStuck waits until the deletion of a namespace waits for the log service.
func requireStuck(t *testing.T, namespace string) {
	t.Helper()
	// The controller of namespaces asks for the kinds, as this does.
	eventually(t, patience, "discovery to miss the logs", func() error {
		_, err := cluster.Kube.Discovery().ServerPreferredResources()
		if discovery.IsGroupDiscoveryFailedError(err) {
			return nil
		}
		if err == nil {
			err = errors.New("it misses nothing")
		}
		return err
	})
	require.NoError(t, cluster.Kube.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}))
	eventually(t, patience, "the namespace to say what its deletion waits for", func() error {
		got, err := cluster.Kube.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range got.Status.Conditions {
			if c.Type == corev1.NamespaceDeletionDiscoveryFailure && c.Status == corev1.ConditionTrue && strings.Contains(c.Message, endpoint.Group) {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", got.Status.Conditions)
	})
}

func waitUntilNamespaceIsGone(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, patience, "namespace "+namespace+" to be gone", func() error {
		_, err := cluster.Kube.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return cmp.Or(err, errors.New("it is there"))
	})
}

// requireAlert waits for the metric of the API server that docs/operations.md alerts on.
func requireAlert(t *testing.T, value string) {
	t.Helper()
	want := fmt.Sprintf("aggregator_unavailable_apiservice{name=%q} %s\n", logsAPIService, value)
	eventually(t, patience, want, func() error {
		metrics, err := cluster.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		if err == nil && !strings.Contains(string(metrics), want) {
			err = errors.New("it has another value")
		}
		return err
	})
}

// What docs/operating-logs.md says of an outage of the log service, and of its end.
func TestWithoutTheLogServiceNoNamespaceIsDeletedUntilItOrItsAPIServiceIs(t *testing.T) {
	client, err := dynamic.NewForConfig(cluster.Config)
	require.NoError(t, err)
	services := client.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	registered, err := services.Get(t.Context(), logsAPIService, metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, cluster.Scale(t.Context(), endpoint.Namespace, framework.LogService, 0))
	t.Cleanup(func() { _ = cluster.Scale(t.Context(), endpoint.Namespace, framework.LogService, 1) })
	requireAlert(t, "1")

	namespace := plainNamespace(t)
	requireStuck(t, namespace)
	require.NoError(t, services.Delete(t.Context(), logsAPIService, metav1.DeleteOptions{}))
	waitUntilNamespaceIsGone(t, namespace)

	registered.SetResourceVersion("")
	registered.SetUID("")
	_, err = services.Create(t.Context(), registered, metav1.CreateOptions{})
	require.NoError(t, err)
	requireAlert(t, "1")
	namespace = plainNamespace(t)
	requireStuck(t, namespace)
	require.NoError(t, cluster.Scale(t.Context(), endpoint.Namespace, framework.LogService, 1))
	waitUntilNamespaceIsGone(t, namespace)
	requireAlert(t, "0")
}

// withoutLogService has pods end in an outage of the log service of so many seconds: one
// whose deadline and grace period are over before the service is back, and one that prints
// more than its memory for output holds and ends by itself.
func withoutLogService(t *testing.T, seconds int64) {
	t.Helper()
	kubectl := newPlugin(t)
	namespace, token := logsNamespace(t, "stream")
	require.NoError(t, cluster.Scale(t.Context(), endpoint.Namespace, framework.LogService, 0))
	t.Cleanup(func() { _ = cluster.Scale(context.Background(), endpoint.Namespace, framework.LogService, 1) })
	late := askingPod("late", busybox(t, "main", "sh", "-c", "echo lost; sleep 1000"))
	late.Spec.ActiveDeadlineSeconds, late.Spec.TerminationGracePeriodSeconds = &seconds, new(int64(1))
	createPod(t, namespace, late)
	const line, lines = "compiling one more file", 150_000
	createPod(t, namespace, askingPod("builds", busybox(t, "main", "sh", "-c", fmt.Sprintf("yes %q | head -n %d; echo built >&2", line, lines))))
	waitUntilDone(t, namespace, "late")
	require.NoError(t, cluster.Scale(t.Context(), endpoint.Namespace, framework.LogService, 1))
	require.NoError(t, cluster.WaitForDeployment(t.Context(), endpoint.Namespace, framework.LogService))
	waitUntilDone(t, namespace, "builds")
	service := logService(t)
	require.Equal(t, strings.Repeat(line+"\n", lines), service.stored(token, namespace, "builds", "main")["main stdout"])
	service.requireAccounted(token, namespace, "builds")
	eventually(t, patience, "the warning", func() error {
		command := kubectl.command(t.Context(), "", "-n", namespace, "late")
		text, err := command.CombinedOutput()
		if command.ProcessState == nil || command.ProcessState.ExitCode() != 3 || !strings.HasPrefix(string(text), `The log service has nothing of container "main" of pod "late", which ended at `) {
			return fmt.Errorf("%w: %s", err, text)
		}
		return nil
	})
}

func TestWhatEndsInAnOutageOfTheLogServiceIsDeliveredOrNamedByWhatReadsIt(t *testing.T) {
	withoutLogService(t, 30)
}
