// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// forAllPods is a namespace that opts in for all of its pods.
func forAllPods(t *testing.T) string {
	t.Helper()
	return newNamespace(t, map[string]string{pod.InjectAnnotation: "all"}).Name
}

func TestInANamespaceForAllPodsNobodyAsks(t *testing.T) {
	t.Parallel()
	namespace := forAllPods(t)
	waitUntilWrapped(t, namespace, plainPod("probe", busybox(t, "main", "true")), true)

	p := plainPod("bare", busybox(t, "main", "readlink", "/proc/1/exe"))
	requireWrapped(t, createPod(t, namespace, p), "main")
	waitUntilDone(t, namespace, "bare")
	require.Equal(t, pod.EntrypointPath+"\n", logs(t, namespace, "bare", "main"))

	spec, selector := serving(t, "deployed")
	spec.Annotations = nil
	_, err := cluster.Kube.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "deployed"}, Spec: appsv1.DeploymentSpec{Selector: selector, Template: spec},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	requireWrapped(t, podOfApp(t, namespace, "deployed"), "main")

	out := plainPod("out", busybox(t, "main", "readlink", "/proc/1/exe"))
	out.Annotations = map[string]string{pod.InjectAnnotation: "false"}
	created := createPod(t, namespace, out)
	require.Empty(t, created.Spec.InitContainers)
	require.Equal(t, string(pod.OptedOut), created.Annotations[pod.StatusAnnotation])
}

func TestANamespaceThatNoLongerOptsInForAllPodsWrapsThoseThatAsk(t *testing.T) {
	t.Parallel()
	namespace := forAllPods(t)
	waitUntilWrapped(t, namespace, plainPod("probe", busybox(t, "main", "true")), true)
	_, err := annotate(t.Context(), namespace, `"true"`)
	require.NoError(t, err)
	waitForLabel(t, namespace, true)
	waitUntilWrapped(t, namespace, plainPod("probe", busybox(t, "main", "true")), false)
	requireWrapped(t, createPod(t, namespace, askingPod("asks", busybox(t, "main", "true"))), "main")
}

func TestAnAnnotationOfAPodThatExistsIsWarnedOf(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	createPod(t, namespace, plainPod("exists", busybox(t, "main", "true")))
	var heard warnings
	client, err := kubernetes.NewForConfig(heardBy(&heard))
	require.NoError(t, err)
	_, err = client.CoreV1().Pods(namespace).Patch(t.Context(), "exists", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"`+pod.InjectAnnotation+`":"true"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.Len(t, heard, 1)
	require.Contains(t, heard[0], "has no effect on a pod that exists: pods are wrapped when they are created")
}

func TestANamespaceThatOptsInHearsWhichPodsMustAsk(t *testing.T) {
	t.Parallel()
	var heard warnings
	client, err := kubernetes.NewForConfig(heardBy(&heard))
	require.NoError(t, err)
	namespace := plainNamespace(t)
	set := func(kind, key, value string) []string {
		heard = nil
		_, err := client.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType,
			[]byte(`{"metadata":{"`+kind+`":{"`+key+`":`+value+`}}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		return heard
	}
	// The webhook has 2 s, and what it would say is left out if it doesn't answer.
	says := func(kind, key, value string, want ...string) {
		t.Helper()
		eventually(t, time.Minute, "the injector to speak of a namespace", func() error {
			heard := set(kind, key, value)
			for _, text := range want {
				if !strings.Contains(strings.Join(heard, "\n"), text) {
					set(kind, key, "null")
					return fmt.Errorf("%q was heard, not %q", heard, text)
				}
			}
			return nil
		})
	}
	says("annotations", "entrypoint.dev/inject", `"true"`, `annotation entrypoint.dev/inject is unknown and has no effect; did you mean "entrypointer.dev/inject"?`)
	says("labels", pod.InjectAnnotation, `"true"`, "to opt in: kubectl annotate --overwrite namespace "+namespace+" entrypointer.dev/inject=true")
	says("annotations", pod.InjectAnnotation, `"true"`, "another pod asks by its own annotation", "kubectl -n "+namespace+" rollout restart deployment")
	says("labels", pod.InjectAnnotation, `"false"`, "to opt out: kubectl annotate namespace "+namespace+" entrypointer.dev/inject-")
	for _, ns := range []string{`""`, `"yes"`, `"True"`} {
		_, err := client.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"`+pod.InjectAnnotation+`":`+ns+`}}}`), metav1.PatchOptions{})
		require.ErrorContains(t, err, `is none of "true" (TaskRuns, Knative Revisions, and pods that ask), "all" (every pod) and "false"`)
	}
}
