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

// clockDeployment is a Deployment of pods that ask, and run until they are told to stop.
func clockDeployment(t *testing.T, name string, replicas int32) *appsv1.Deployment {
	t.Helper()
	labels := map[string]string{"app": name}
	template := askingPod("", busybox(t, "main", forever...))
	template.Labels = labels
	template.Spec.RestartPolicy = ""
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: template.ObjectMeta, Spec: template.Spec},
		},
	}
}

func createDeployment(t *testing.T, namespace string, d *appsv1.Deployment) {
	t.Helper()
	_, err := cluster.Kube.AppsV1().Deployments(namespace).Create(t.Context(), d, metav1.CreateOptions{})
	require.NoError(t, err)
}

func TestARolloutOfAnAnnotatedDeploymentWrapsItsPods(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	d := clockDeployment(t, "clock", 1)
	delete(d.Spec.Template.Annotations, pod.InjectAnnotation)
	createDeployment(t, namespace, d)
	require.NoError(t, cluster.WaitForDeployment(t.Context(), namespace, "clock"))
	before, err := cluster.PodOf(t.Context(), namespace, "app=clock")
	require.NoError(t, err)
	require.NoError(t, framework.CheckNotWrapped(before))

	patch := `{"spec":{"template":{"metadata":{"annotations":{"` + pod.InjectAnnotation + `":"true"}}}}}`
	_, err = cluster.Kube.AppsV1().Deployments(namespace).Patch(t.Context(), "clock", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, cluster.WaitForDeployment(t.Context(), namespace, "clock"))
	after, err := cluster.PodOf(t.Context(), namespace, "app=clock")
	require.NoError(t, err)
	requireWrapped(t, after, "main")
	require.Equal(t, pod.EntrypointPath+"\n", execIn(t, namespace, after.Name, "main", "readlink", "/proc/1/exe"))
}
