// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// helloService creates the example's Knative Service, changed, and waits until it is ready.
func helloService(t *testing.T, namespace string, change func(*servingv1.RevisionTemplateSpec)) *servingv1.Service {
	t.Helper()
	objects, err := framework.Example(t.Context(), "service.yaml")
	require.NoError(t, err)
	service, err := framework.Typed[servingv1.Service](objects[0])
	require.NoError(t, err)
	change(&service.Spec.Template)
	_, err = cluster.Serving.ServingV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{})
	require.NoError(t, err)
	service, err = cluster.WaitForService(t.Context(), namespace, service.Name)
	require.NoError(t, err)
	return service
}

// waitForAnswer asks until the Service answers: a route may become ready some
// moments before the ingress knows it.
func waitForAnswer(t *testing.T, service *servingv1.Service) string {
	t.Helper()
	var answer string
	eventually(t, patience, "an answer from "+service.Status.URL.String(), func() (err error) {
		answer, err = cluster.Ask(t.Context(), service, "/")
		return err
	})
	return answer
}

func servingPod(t *testing.T, service *servingv1.Service) *corev1.Pod {
	t.Helper()
	p, err := cluster.PodOf(t.Context(), service.Namespace, "serving.knative.dev/service="+service.Name)
	require.NoError(t, err)
	return p
}

func requireWrappedAnswer(t *testing.T, answer string) {
	t.Helper()
	said, processes := framework.SplitProcesses(answer)
	require.Equal(t, "hello, Knative\n", said)
	require.Len(t, processes, 2, "the supervisor and the server")
	require.Equal(t, 1, processes[0].PID)
	require.Regexp(t, "^"+pod.EntrypointPath+" -image-words=1:[^ ]+/hello-[0-9a-f]+@sha256:[0-9a-f]{64} -- /ko-app/hello$", processes[0].Command)
	require.Equal(t, "/ko-app/hello", processes[1].Command)
}

func TestAKnativeServiceScalesToZeroAndBackUnderTheEntrypoint(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	service := helloService(t, namespace, func(template *servingv1.RevisionTemplateSpec) {
		template.Annotations = map[string]string{"autoscaling.knative.dev/window": "6s"}
	})
	requireWrappedAnswer(t, waitForAnswer(t, service))
	first := servingPod(t, service)
	requireWrapped(t, first, "user-container")
	output := follow(t, namespace, first.Name, "user-container")

	// Nobody asks, so it stops. Until it has, it would still answer.
	all := output.rest()
	require.Equal(t, "stopped in order", all[len(all)-1], "the last of %q", all)
	deployment, err := cluster.Kube.AppsV1().Deployments(namespace).Get(t.Context(), service.Status.LatestReadyRevisionName+"-deployment", metav1.GetOptions{})
	require.NoError(t, err)
	require.Zero(t, *deployment.Spec.Replicas)

	requireWrappedAnswer(t, waitForAnswer(t, service))
	second := servingPod(t, service)
	requireWrapped(t, second, "user-container")
	require.NotEqual(t, first.UID, second.UID, "the pod that answers after scaling to zero")
}

func TestAKnativePodThatIsStoppedAnswersFirst(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	service := helloService(t, namespace, func(template *servingv1.RevisionTemplateSpec) {
		template.Annotations = map[string]string{"autoscaling.knative.dev/min-scale": "1"} // else a busy machine may stop the pod before we do
	})
	requireWrappedAnswer(t, waitForAnswer(t, service))
	p := servingPod(t, service)
	output := follow(t, namespace, p.Name, "user-container")

	type answer struct {
		text string
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		text, err := cluster.Ask(t.Context(), service, "/?sleep=5s")
		answered <- answer{text, err}
	}()
	time.Sleep(time.Second) // for the request to arrive
	deletePod(t, namespace, p.Name)
	got := <-answered
	require.NoError(t, got.err)
	requireWrappedAnswer(t, got.text)
	all := output.rest()
	require.Contains(t, all, "told to stop, finishing requests")
	require.Equal(t, "stopped in order", all[len(all)-1], "the last of %q", all)
}

// What a container last did is what its author reads in the Revision.
func TestARevisionThatFailsSaysSoAsUnwrapped(t *testing.T) {
	t.Parallel()
	namespaces, messages := map[bool]string{false: plainNamespace(t), true: optedInNamespace(t)}, map[bool]string{}
	for _, namespace := range namespaces {
		service := &servingv1.Service{ObjectMeta: metav1.ObjectMeta{Name: "fails"}}
		// Knative looks at the container once, when the Deployment gives up: after
		// its first crash, and before it is scaled to zero.
		service.Spec.Template.Annotations = map[string]string{"serving.knative.dev/progress-deadline": "45s"}
		service.Spec.Template.Spec.Containers = []corev1.Container{busybox(t, "", "sh", "-c", "echo no database; exit 7")}
		_, err := cluster.Serving.ServingV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	for wrapped, namespace := range namespaces {
		eventually(t, muchPatience, fmt.Sprintf("Knative Service \"fails\" in namespace %q to have failed", namespace), func() error {
			revision, err := cluster.Serving.ServingV1().Revisions(namespace).Get(t.Context(), "fails-00001", metav1.GetOptions{})
			if err != nil {
				return err
			}
			condition := revision.Status.GetCondition(servingv1.RevisionConditionContainerHealthy)
			if condition == nil || !condition.IsFalse() {
				return fmt.Errorf("its Revision says %v", condition)
			}
			messages[wrapped] = condition.Reason + ": " + condition.Message
			return nil
		})
	}
	require.Equal(t, "ExitCode7: Container failed with: no database\n", messages[false])
	require.Equal(t, messages[false], messages[true])
}
