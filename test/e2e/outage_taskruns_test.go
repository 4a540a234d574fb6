// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// installOutage installs config/outage for the test, and returns when the pods of TaskRuns in
// a namespace may wait, and when the injector has said how to wrap them. It skips on an API
// server that lacks the policies.
func installOutage(t *testing.T, namespace string) {
	t.Helper()
	served, err := cluster.Kube.Discovery().ServerResourcesForGroupVersion("admissionregistration.k8s.io/v1")
	require.NoError(t, err)
	if !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Kind == "MutatingAdmissionPolicy" }) {
		t.Skipf("Kubernetes %s doesn't serve MutatingAdmissionPolicy v1", serverVersion(t))
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, framework.RemoveOutage(ctx))
	})
	require.NoError(t, cluster.InstallOutage(t.Context(), namespace, image(t, "busybox:1.37")))
}

// waitUntilWaiting returns when a TaskRun waits as after an exceeded quota.
func waitUntilWaiting(t *testing.T, namespace, name string) {
	t.Helper()
	eventually(t, time.Minute, "TaskRun "+name+" to wait", func() error {
		run, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		condition := run.Status.GetCondition(apis.ConditionSucceeded)
		if condition == nil || !condition.IsUnknown() || condition.Reason != "ExceededResourceQuota" {
			return fmt.Errorf("its condition is %v", condition)
		}
		require.Contains(t, condition.Message, "the injector doesn't respond")
		return nil
	})
}

// withOption returns a TaskRun that only the injector can wrap.
func withOption(t *testing.T, name string) *pipelinev1.TaskRun {
	t.Helper()
	run := taskRun(name, pipelinev1.TaskSpec{
		StepTemplate: &pipelinev1.StepTemplate{Image: image(t, "busybox:1.37")},
		Steps:        []pipelinev1.Step{script("one", "echo one"), script("two", "echo two")},
	})
	run.Annotations = map[string]string{"entrypointer.dev/timeout": "1h"}
	// Shorter than the outage: it begins with the pod.
	run.Spec.Timeout = &metav1.Duration{Duration: 30 * time.Second}
	return run
}

// pipelineOf returns a PipelineRun of tasks that run one after the other.
func pipelineOf(t *testing.T, name string, annotations map[string]string, tasks ...string) *pipelinev1.PipelineRun {
	t.Helper()
	spec := &pipelinev1.PipelineSpec{}
	for at, task := range tasks {
		embedded := pipelinev1.PipelineTask{Name: task, TaskSpec: &pipelinev1.EmbeddedTask{TaskSpec: pipelinev1.TaskSpec{
			Steps: []pipelinev1.Step{{Name: "only", Image: image(t, "busybox:1.37"), Script: "#!/bin/sh\necho " + task + "\n"}},
		}}}
		if at > 0 {
			embedded.RunAfter = []string{tasks[at-1]}
		}
		spec.Tasks = append(spec.Tasks, embedded)
	}
	return &pipelinev1.PipelineRun{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: pipelinev1.PipelineRunSpec{PipelineSpec: spec}}
}

func TestInAnOutageTaskRunsWaitAndAreWrappedOnceTheInjectorIsBack(t *testing.T) {
	namespace, elsewhere := optedInNamespace(t), plainNamespace(t)
	installOutage(t, namespace)
	bringBack := takeDown(t)
	_, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Create(t.Context(), withOption(t, "waits"), metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = cluster.Tekton.TektonV1().PipelineRuns(namespace).Create(t.Context(),
		pipelineOf(t, "three", map[string]string{"entrypointer.dev/timeout": "1h"}, "first", "second", "third"), metav1.CreateOptions{})
	require.NoError(t, err)
	waitUntilWaiting(t, namespace, "waits")
	waitUntilWaiting(t, namespace, "three-first")

	forged := framework.StepPod(image(t, "busybox:1.37"))
	forged.Annotations = map[string]string{pod.StatusAnnotation: "Injected by init-container", pod.MayWaitAnnotation: "true", "entrypointer.dev/timeout": "1h"}
	_, err = wouldBecome(t, namespace, forged)
	require.ErrorContains(t, err, "exceeded quota")
	_, err = wouldBecome(t, namespace, askingPod("asks", busybox(t, "main", "true")))
	require.ErrorContains(t, err, "failed calling webhook", "it is no TaskRun's")
	ran, p := runTask(t, elsewhere, withOption(t, "elsewhere"))
	require.Equal(t, corev1.ConditionTrue, ran.Succeeded, ran.Message)
	require.NotContains(t, p.Annotations, pod.MayWaitAnnotation)
	pods, err := cluster.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, pods.Items)

	bringBack()
	run, err := cluster.WaitForTaskRun(t.Context(), namespace, "waits")
	require.NoError(t, err)
	ran = describe(t, run)
	require.Equal(t, corev1.ConditionTrue, ran.Succeeded, ran.Message)
	require.Equal(t, "two\n", ran.Steps[1].Log)
	pipeline, err := cluster.WaitForPipelineRun(t.Context(), namespace, "three")
	require.NoError(t, err)
	require.True(t, pipeline.Status.GetCondition(apis.ConditionSucceeded).IsTrue(), "%v", pipeline.Status.GetCondition(apis.ConditionSucceeded))
	pods, err = cluster.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, pods.Items, 4)
	for i := range pods.Items {
		requireWrapped(t, &pods.Items[i], stepContainers(&pods.Items[i])...)
	}
}

func TestInAnOutagePlainTaskRunsRunWrapped(t *testing.T) {
	namespace, elsewhere := optedInNamespace(t), plainNamespace(t)
	installOutage(t, namespace)
	takeDown(t)
	_, err := cluster.Tekton.TektonV1().PipelineRuns(namespace).Create(t.Context(), pipelineOf(t, "three", nil, "first", "second", "third"), metav1.CreateOptions{})
	require.NoError(t, err)
	ways := taskRun("ways", pipelinev1.TaskSpec{
		Results:      []pipelinev1.TaskResult{{Name: "word"}},
		StepTemplate: &pipelinev1.StepTemplate{Image: image(t, "busybox:1.37")},
		Steps: []pipelinev1.Step{
			script("writes", "printf first > $(results.word.path)"),
			{Name: "killed", OnError: pipelinev1.Continue, Script: "#!/bin/sh\nkill -USR1 $$\n"},
			{Name: "tolerated", OnError: pipelinev1.Continue, Command: []string{"sh", "-c", "echo $0; exit 3"}, Args: []string{"5$"}},
			script("reads", "cat $(results.word.path)"),
			{Name: "fails", Script: "#!/bin/sh\nexit 42\n"},
		},
	})
	wrapped, p := runTask(t, namespace, ways)
	requireWrappedByPolicy(t, p)
	plain, p := runTask(t, elsewhere, ways)
	require.NoError(t, framework.CheckNotWrapped(p))
	require.NotZero(t, plain.Steps[1].ExitCode, "a signal has killed it")
	require.Equal(t, "first", plain.Steps[3].Log)
	require.Equal(t, int32(42), plain.Steps[4].ExitCode)
	require.Equal(t, plain, wrapped)

	pipeline, err := cluster.WaitForPipelineRun(t.Context(), namespace, "three")
	require.NoError(t, err)
	require.True(t, pipeline.Status.GetCondition(apis.ConditionSucceeded).IsTrue(), "%v", pipeline.Status.GetCondition(apis.ConditionSucceeded))
	pods, err := cluster.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, pods.Items, 4)
	for i := range pods.Items {
		requireWrappedByPolicy(t, &pods.Items[i])
	}
}

// requireWrappedByPolicy requires that a pod is as the injector makes it, but for its status.
func requireWrappedByPolicy(t *testing.T, p *corev1.Pod) {
	t.Helper()
	require.Equal(t, pod.InjectedByPolicy, p.Annotations[pod.StatusAnnotation])
	p = p.DeepCopy()
	p.Annotations[pod.StatusAnnotation] = "Injected by init-container"
	require.NoError(t, framework.CheckStepsWrapped(p))
	for at, c := range p.Spec.Containers {
		flags := pod.Flags(c)
		require.Contains(t, flags, fmt.Sprintf("-post-file=/tekton/run/%d/out", at))
		if at > 0 {
			require.Contains(t, flags, fmt.Sprintf("-wait-file=/tekton/run/%d/out", at-1))
		}
	}
}
