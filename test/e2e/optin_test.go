// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

func TestANamespaceThatDidNotOptInIsUntouched(t *testing.T) {
	t.Parallel()
	requireRunsAsWritten(t, plainNamespace(t))
}

// requireRunsAsWritten creates a pod that would be wrapped in a namespace that
// opted in, and compares it with what was submitted.
func requireRunsAsWritten(t *testing.T, namespace string) {
	t.Helper()
	submitted := askingPod("as-written", busybox(t, "main", "readlink", "/proc/1/exe"))
	created := createPod(t, namespace, submitted)
	require.True(t, equality.Semantic.DeepDerivative(submitted.Spec, created.Spec), "submitted %+v, created %+v", submitted.Spec, created.Spec)
	require.Equal(t, submitted.Annotations, created.Annotations)
	// A derivative may have more elements in its lists.
	require.Empty(t, created.Spec.InitContainers)
	require.Empty(t, created.Spec.Volumes)
	require.Len(t, created.Spec.Containers, 1)
	main := created.Spec.Containers[0]
	require.Equal(t, submitted.Spec.Containers[0].Command, main.Command)
	require.Empty(t, main.Args)
	require.Empty(t, main.VolumeMounts)
	waitUntilDone(t, namespace, "as-written")
	require.Equal(t, "/bin/busybox\n", logs(t, namespace, "as-written", "main"))
}

func TestANamespaceOptsOutByRemovingTheAnnotation(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	requireWrapped(t, createPod(t, namespace, askingPod("before", busybox(t, "main", "true"))), "main")
	_, err := annotate(t.Context(), namespace, "null")
	require.NoError(t, err)
	waitForLabel(t, namespace, false)
	waitUntilSelected(t, namespace, false)
	requireRunsAsWritten(t, namespace)
}

func TestANamespaceOptsInLater(t *testing.T) {
	t.Parallel()
	namespace := plainNamespace(t)
	_, err := annotate(t.Context(), namespace, `"true"`)
	require.NoError(t, err)
	waitForLabel(t, namespace, true)
	waitUntilSelected(t, namespace, true)
	requireWrapped(t, createPod(t, namespace, askingPod("later", busybox(t, "main", "true"))), "main")
}

// attempts is how often what the webhook does at once is tried: it has 2 s, and its
// failure is ignored.
const attempts = 3

func TestTheLabelFollowsTheAnnotationAtOnce(t *testing.T) {
	t.Parallel()
	want := []string{"true", "", "true"}
	var got []string
	for try := 0; try < attempts && !slices.Equal(got, want); try++ {
		created := newNamespace(t, map[string]string{pod.InjectAnnotation: "true"})
		out, err := annotate(t.Context(), created.Name, "null")
		require.NoError(t, err)
		in, err := annotate(t.Context(), created.Name, `"true"`)
		require.NoError(t, err)
		got = []string{created.Labels[pod.InjectAnnotation], out.Labels[pod.InjectAnnotation], in.Labels[pod.InjectAnnotation]}
	}
	require.Equal(t, want, got)
}

// waitUntilSelected waits until the API server has noticed a label: it selects
// webhooks by what it last heard of a namespace.
func waitUntilSelected(t *testing.T, namespace string, want bool) {
	t.Helper()
	waitUntilWrapped(t, namespace, askingPod("probe", busybox(t, "main", "true")), want)
}

// waitUntilWrapped waits until a pod would be wrapped, or left alone.
func waitUntilWrapped(t *testing.T, namespace string, p *corev1.Pod, want bool) {
	t.Helper()
	eventually(t, time.Minute, fmt.Sprintf("the API server to see that pod %q of namespace %q is to be wrapped: %v", p.Name, namespace, want), func() error {
		seen, err := wouldBecome(t, namespace, p.DeepCopy())
		if err != nil {
			return err // a policy's, perhaps: the label isn't seen yet
		}
		if (framework.CheckNotWrapped(seen) != nil) != want {
			return errors.New("a pod would still be treated as before")
		}
		return nil
	})
}

func TestALabelThatSomebodyRemovesIsRepaired(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	for _, value := range []string{"null", `"false"`} {
		_, err := cluster.Kube.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"`+pod.InjectAnnotation+`":`+value+`}}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		waitForLabel(t, namespace, true)
	}
}

// Labels can be changed through these as well.
func TestALabelCanNotBeRemovedThroughASubresource(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	for _, subresource := range []string{"status", "finalize"} {
		label := ""
		for try := 0; try < attempts && label != "true"; try++ {
			waitForLabel(t, namespace, true)
			ns, err := cluster.Kube.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
			require.NoError(t, err)
			delete(ns.Labels, pod.InjectAnnotation)
			var after corev1.Namespace
			require.NoError(t, cluster.Kube.CoreV1().RESTClient().Put().Resource("namespaces").Name(namespace).SubResource(subresource).
				Body(ns).Do(t.Context()).Into(&after))
			label = after.Labels[pod.InjectAnnotation]
		}
		require.Equal(t, "true", label, "through namespaces/%s", subresource)
	}
}

func TestALabelWithoutAnnotationIsRemoved(t *testing.T) {
	t.Parallel()
	waitForLabel(t, plainNamespace(t, pod.InjectAnnotation, "true"), false)
}

func waitForLabel(t *testing.T, namespace string, want bool) {
	t.Helper()
	eventually(t, time.Minute, fmt.Sprintf("namespace %q to be labelled: %v", namespace, want), func() error {
		ns, err := cluster.Kube.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if value, labelled := ns.Labels[pod.InjectAnnotation]; labelled != want || labelled && value != "true" {
			return fmt.Errorf("its labels are %v", ns.Labels)
		}
		return nil
	})
}

func TestNamespacesThatTheClusterDependsOnCanNotOptIn(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{metav1.NamespaceSystem, framework.SystemNamespace} {
		_, err := annotate(t.Context(), namespace, `"true"`)
		if err == nil {
			_, err := annotate(t.Context(), namespace, "null")
			require.NoError(t, err)
		}
		require.ErrorContains(t, err, fmt.Sprintf("opting namespace %q in", namespace))
		require.ErrorContains(t, err, "annotate another namespace")
	}
}

func TestANamespaceAnnotationOfAnotherValueIsRefused(t *testing.T) {
	t.Parallel()
	namespace := plainNamespace(t)
	_, err := annotate(t.Context(), namespace, `"yes"`)
	require.ErrorContains(t, err, `"yes" is none of "true"`)
	require.ErrorContains(t, err, "to opt in: kubectl annotate --overwrite namespace "+namespace+" "+pod.InjectAnnotation+"=true")
	_, err = annotate(t.Context(), namespace, `"false"`)
	require.NoError(t, err)
}
