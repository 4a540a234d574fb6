// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// A Deployment's pods are read by name, those of before a rollout too.
func readsADeployment(t *testing.T, kubectl plugin) {
	namespace, token := logsNamespace(t, "stream")
	viewer := withToken(t, token)
	const app = "app=prints"
	replicas := int32(2)
	labels := map[string]string{"app": "prints"}
	container := busybox(t, "main", "sh", "-c", `trap 'echo "$VERSION ends"; exit 0' TERM; echo "$VERSION starts"; while true; do sleep 0.1; done`)
	container.Env = []corev1.EnvVar{{Name: "VERSION", Value: "first"}}
	_, err := cluster.Kube.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "prints"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{pod.InjectAnnotation: "true"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{container}},
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, cluster.WaitForDeployment(t.Context(), namespace, "prints"))
	former, err := cluster.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: app})
	require.NoError(t, err)
	require.Len(t, former.Items, int(replicas))
	for _, p := range former.Items {
		require.Equal(t, "first starts\n", kubectl.reads(t, viewer, "starts", "-n", namespace, p.Name))
	}

	next := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"VERSION","value":"second"}]}]}}}}`)
	_, err = cluster.Kube.AppsV1().Deployments(namespace).Patch(t.Context(), "prints", types.StrategicMergePatchType, next, metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, cluster.WaitForDeployment(t.Context(), namespace, "prints"))
	for _, p := range former.Items {
		waitUntilPodIsGone(t, namespace, p.Name)
		require.Equal(t, "first starts\nfirst ends\n", kubectl.reads(t, viewer, "ends", "-n", namespace, p.Name))
	}
	latter, err := cluster.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: app})
	require.NoError(t, err)
	require.Len(t, latter.Items, int(replicas))
	for _, p := range latter.Items {
		require.Equal(t, "second starts\n", kubectl.reads(t, viewer, "starts", "-n", namespace, "pod/"+p.Name))
	}
}

// It is what make demo shows.
func readsTheExample(t *testing.T, kubectl plugin) {
	namespace := optionExample(t, "logs")
	objects, err := framework.Example(t.Context(), "options/logs.yaml")
	require.NoError(t, err)
	ran := ranTask(t, namespace, "logs")
	require.Equal(t, corev1.ConditionTrue, ran.Succeeded, ran.Message)
	for _, step := range ran.Steps {
		require.Equal(t, pointsTo(namespace, "logs-pod", step.Container), step.Log, "the cluster's own")
	}
	serving := readyPod(t, namespace, "logs").Name
	for _, object := range objects {
		require.NoError(t, cluster.Remove(t.Context(), namespace, object))
	}
	waitUntilPodIsGone(t, namespace, "logs-pod")
	waitUntilPodIsGone(t, namespace, serving)
	text := kubectl.reads(t, "", "uploaded", "-n", namespace, "taskrun/logs")
	require.Regexp(t, `^\[pod/logs-pod/step-login\] logging in as admin with the password \*{13}
\[pod/logs-pod/step-upload\] Authorization: Basic YWRtaW46\*+.{0,4}
\[pod/logs-pod/step-upload\] uploaded
$`, text)
	require.Equal(t, "told to stop, finishing requests\nstopped in order\n", kubectl.reads(t, "", "stopped", "-n", namespace, "ksvc/logs", "--tail", "2"))
}
