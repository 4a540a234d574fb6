// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

func TestAnAskingPodRunsUnderTheEntrypoint(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	script := "echo my parent is $PPID; " + forever[2]
	createPod(t, namespace, askingPod("asking", busybox(t, "main", "sh", "-c", script)))
	requireWrapped(t, waitUntilRunning(t, namespace, "asking"), "main")

	inside := func(command ...string) string {
		return strings.TrimSpace(execIn(t, namespace, "asking", "main", command...))
	}
	require.Equal(t, pod.EntrypointPath, inside("readlink", "/proc/1/exe"), "the program of PID 1")
	require.Equal(t, inside("sha256sum", pod.EntrypointPath)[:64], inside("sha256sum", "/proc/1/exe")[:64], "what PID 1 runs is what was copied")
	require.Equal(t, pod.EntrypointPath+" -- sh -c "+script, inside("sh", "-c", "tr '\\0' ' ' < /proc/1/cmdline"))
	require.Equal(t, "my parent is 1\n", logs(t, namespace, "asking", "main"))
	require.NotContains(t, inside("cat", "/proc/self/environ"), "ENTRYPOINTER", "our variables")
	_, err := cluster.Exec(t.Context(), namespace, "asking", "main", "sh", "-c", ": > "+pod.MountPath+"/file")
	require.ErrorContains(t, err, "Read-only", "writing next to the supervisor")
}

func TestOnlyTheContainersThatAPodNamesAreWrapped(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	readlink := []string{"readlink", "/proc/1/exe"}
	p := askingPod("narrowed", busybox(t, "first", readlink...), busybox(t, "second", readlink...), busybox(t, "third", readlink...))
	p.Annotations[pod.ContainersAnnotation] = "first, third"
	createPod(t, namespace, p)
	requireWrapped(t, waitUntilDone(t, namespace, "narrowed"), "first", "third")
	require.Equal(t, pod.EntrypointPath+"\n", logs(t, namespace, "narrowed", "first"))
	require.Equal(t, "/bin/busybox\n", logs(t, namespace, "narrowed", "second"))
}

func TestAPodThatDoesNotAskIsUntouchedInAnOptedInNamespace(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	require.NoError(t, framework.CheckNotWrapped(createPod(t, namespace, plainPod("silent", busybox(t, "main", "true")))))
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "silent").Status.Phase)
}

func TestServerSideDryRunShowsTheRewrittenPod(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	seen, err := wouldBecome(t, namespace, askingPod("dry", busybox(t, "main", "echo", "hello")))
	require.NoError(t, err)
	requireWrapped(t, seen, "main")
	require.Equal(t, []string{"--", "echo", "hello"}, seen.Spec.Containers[0].Args)
	require.Equal(t, "Injected by init-container", seen.Annotations[pod.StatusAnnotation])
	pods, err := cluster.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, pods.Items, "pods after a dry run")
}

func TestAPodAnnotationThatIsNeitherTrueNorFalseIsRefused(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	p := plainPod("unclear", busybox(t, "main", "true"))
	p.Annotations = map[string]string{pod.InjectAnnotation: "yes"}
	_, err := cluster.Kube.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{})
	require.ErrorContains(t, err, `"yes" is neither "true" nor "false"`)
	require.ErrorContains(t, err, pod.InjectAnnotation)
	require.ErrorContains(t, err, `pod "unclear"`)
}

func TestInjectingTwiceEqualsInjectingOnce(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	p := askingPod("twice", busybox(t, "command", "true"), busybox(t, "image"))
	once := createPod(t, namespace, p)
	requireWrapped(t, once, "command", "image")
	p.Name, p.Spec, p.Annotations = "twice-again", *once.Spec.DeepCopy(), once.Annotations
	twice := createPod(t, namespace, p)
	require.True(t, equality.Semantic.DeepEqual(once.Spec, twice.Spec), "once: %+v; twice: %+v", once.Spec, twice.Spec)
}
