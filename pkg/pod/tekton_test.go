// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tektoncd/pipeline/pkg/apis/pipeline"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	tektonpod "github.com/tektoncd/pipeline/pkg/pod"
	"github.com/tektoncd/pipeline/test/names"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	logtesting "knative.dev/pkg/logging/testing"
	_ "knative.dev/pkg/system/testing"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func tektonPod(t testing.TB, spec pipelinev1.TaskSpec) *corev1.Pod {
	t.Helper()
	return tektonPodOf(t, metav1.ObjectMeta{Name: "run", Namespace: "tenant"}, spec)
}

// The pod is made by Tekton's own builder; the client is fake, because the
// builder only reads a service account from it.
func tektonPodOf(t testing.TB, run metav1.ObjectMeta, spec pipelinev1.TaskSpec) *corev1.Pod {
	t.Helper()
	names.TestingSeed() // scripts and volumes get the same names each time
	client := fake.NewClientset(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "tenant"}})
	cache, err := tektonpod.NewEntrypointCache(client)
	require.NoError(t, err)
	builder := tektonpod.Builder{
		Images:          pipeline.Images{EntrypointImage: "entrypoint", ShellImage: "busybox", NopImage: "nop"},
		KubeClient:      client,
		EntrypointCache: cache,
	}
	taskRun := &pipelinev1.TaskRun{
		ObjectMeta: run,
		Spec:       pipelinev1.TaskRunSpec{ServiceAccountName: "default", TaskSpec: &spec},
	}
	built, err := builder.Build(logtesting.TestContextWithLogger(t), taskRun, spec)
	require.NoError(t, err)
	return built
}

func TestATaskRunsPod(t *testing.T) {
	before := tektonPod(t, pipelinev1.TaskSpec{
		Steps: []pipelinev1.Step{
			{Name: "command", Image: "busybox", Command: []string{"echo"}, Args: []string{"hello", "$(context.taskRun.name)"}},
			{Name: "script", Image: "busybox", Script: "#!/bin/sh\necho hello"},
		},
		Sidecars: []pipelinev1.Sidecar{{Name: "db", Image: "busybox", Command: []string{"sleep", "60"}}},
	})
	result := inject(t, newInjector(nil), before)
	require.Equal(t, pod.Injected, result.Outcome)
	require.Equal(t, []string{"step-command", "step-script"}, result.Wrapped)
	for i, c := range before.Spec.Containers[:2] {
		args := result.Pod.Spec.Containers[i].Args
		require.Equal(t, append([]string{"/tekton/bin/entrypoint"}, c.Args...), args[slices.Index(args, "--")+1:],
			"Tekton's entrypoint and its flags stay as they are, to the byte")
		require.True(t, slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-wait-") }), "the hand-off is understood")
	}
	require.Equal(t, before.Spec.Containers[2], result.Pod.Spec.Containers[2], "sidecars are Tekton's to stop")
	requireGolden(t, "taskrun", result.Pod)
}

func TestTektonStillReadsAWrappedPod(t *testing.T) {
	spec := pipelinev1.TaskSpec{Steps: []pipelinev1.Step{{Name: "a", Image: "busybox", Command: []string{"true"}}}}
	wrapped := inject(t, newInjector(nil), tektonPod(t, spec)).Pod
	wrapped.Status = corev1.PodStatus{
		Phase: corev1.PodFailed,
		InitContainerStatuses: []corev1.ContainerStatus{{Name: pod.InitContainerName, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"},
		}}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "step-a", ImageID: "busybox@sha256:0", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"},
		}}},
	}
	run := pipelinev1.TaskRun{
		ObjectMeta: metav1.ObjectMeta{Name: "run", Namespace: "tenant"},
		Status:     pipelinev1.TaskRunStatus{TaskRunStatusFields: pipelinev1.TaskRunStatusFields{TaskSpec: &spec}},
	}
	ctx := logtesting.TestContextWithLogger(t)
	client := fake.NewClientset(wrapped)
	status, err := tektonpod.MakeTaskRunStatus(ctx, logtesting.TestLogger(t), run, wrapped, client, &spec)
	require.NoError(t, err)
	require.Len(t, status.Steps, 1)
	require.Equal(t, int32(3), status.Steps[0].Terminated.ExitCode)
	require.Empty(t, status.Sidecars, "an init container more is no sidecar")
	require.Contains(t, status.Conditions[0].Message, `"step-a" exited with code 3`)
}
