// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// A Deployment's pods are read by name, those of before a rollout too, and by their labels
// while they exist.
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
	byLabels := func(line string, pods []corev1.Pod) {
		t.Helper()
		var want []string
		for _, p := range pods {
			want = append(want, "[pod/"+p.Name+"/main] "+line)
		}
		text := kubectl.reads(t, viewer, line, "-n", namespace, "-l", app, "--stream", "stdout")
		require.ElementsMatch(t, want, strings.Split(strings.TrimSpace(text), "\n"))
	}
	byLabels("first starts", former.Items)

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
	byLabels("second starts", latter.Items)
}

// The run of a container before a restart is read by itself, also when the pod is gone.
func readsARestart(t *testing.T, kubectl plugin) {
	namespace, token := logsNamespace(t, "stream")
	viewer := withToken(t, token)
	main := busybox(t, "main", "sh", "-c", `echo >>/data/runs; run=$(($(wc -l </data/runs))); echo "run $run"; test $run = 1 && exit 1; exec sleep 600`)
	main.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	p := askingPod("restarts", main)
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	createPod(t, namespace, p)
	require.Equal(t, "run 1\nrun 2\n", kubectl.reads(t, viewer, "run 2", "-n", namespace, "restarts"))
	for _, kubeconfig := range []string{"", viewer} {
		require.Equal(t, "run 1\n", kubectl.reads(t, kubeconfig, "run", "-n", namespace, "restarts", "main", "--previous"))
	}
	deletePod(t, namespace, "restarts")
	waitUntilPodIsGone(t, namespace, "restarts")
	require.Equal(t, "run 1\n", kubectl.reads(t, viewer, "run", "-n", namespace, "restarts", "--previous"))
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
