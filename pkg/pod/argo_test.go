// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// argoPod is the pod of a Workflow, made by Argo's own controller.
func argoPod(t *testing.T) *corev1.Pod {
	t.Helper()
	made, err := os.ReadFile("testdata/argo-workflow.yaml")
	require.NoError(t, err)
	p := &corev1.Pod{}
	require.NoError(t, yaml.UnmarshalStrict(made, p))
	return p
}

// argoInjector wraps the pods of Workflows as well.
func argoInjector() *pod.Injector {
	injector := newInjector(nil)
	injector.Policy.Owners = pod.Owners()
	return injector
}

func TestAWorkflowsPod(t *testing.T) {
	before := argoPod(t)
	result := inject(t, argoInjector(), before)
	require.Equal(t, pod.Injected, result.Outcome)
	require.Equal(t, pod.Argo, result.Owner)
	require.Equal(t, []string{"main"}, result.Wrapped)
	at := slices.IndexFunc(before.Spec.Containers, func(c corev1.Container) bool { return c.Name == "wait" })
	require.Equal(t, before.Spec.Containers[at], result.Pod.Spec.Containers[at], "wait is Argo's")
	require.Equal(t, before.Spec.InitContainers, result.Pod.Spec.InitContainers[1:])
	requireGolden(t, "workflow", result.Pod)
	require.Equal(t, pod.AlreadyInjected, inject(t, argoInjector(), result.Pod).Outcome)
}

func TestByDefaultAWorkflowsPodIsAsAnyOther(t *testing.T) {
	require.Equal(t, pod.NotOurs, inject(t, newInjector(nil), argoPod(t)).Outcome)
	asks := inject(t, newInjector(nil), annotated(argoPod(t), pod.InjectAnnotation, "true"))
	require.Equal(t, pod.Asking, asks.Owner)
	require.Equal(t, []string{"wait", "main"}, asks.Wrapped)
}

func TestTheContainerOfArgosOwnIsNotWaitedFor(t *testing.T) {
	_, err := argoInjector().Inject(t.Context(), "tenant", annotated(argoPod(t), "depends-on.entrypointer.dev/main", "wait:started"))
	requireRefused(t, err, pod.InvalidAnnotation, "wait is Argo's own, and isn't wrapped")
}
