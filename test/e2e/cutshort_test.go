// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"

	"github.com/entrypointer/entrypointer/test/framework"
)

// whileTheyWait is a TaskRun whose first step doesn't end.
func whileTheyWait(t *testing.T, name string) *pipelinev1.TaskRun {
	t.Helper()
	spec := inOneDirectory(t, "/shared")
	spec.Steps = []pipelinev1.Step{script("works", "echo works; exec sleep 3600"), script("waits", ":"), script("waits-too", ":")}
	return taskRun(name, spec)
}

func TestATaskRunIsCancelledWhileStepsWait(t *testing.T) {
	t.Parallel()
	both, run := newPair(t), whileTheyWait(t, "cancelled")
	both.start(t, run)
	wrapped := cancelWhileStepsWait(t, both, run.Name)
	require.Len(t, wrapped.Steps, 3)
}

// cancelWhileStepsWait cancels a TaskRun in both namespaces, where the same must
// become of it, and returns what.
func cancelWhileStepsWait(t *testing.T, both pair, name string) outcome {
	t.Helper()
	for _, namespace := range []string{both.plain, both.optedIn} {
		waitUntilStepsWait(t, namespace, name)
		cancelTaskRun(t, namespace, name)
	}
	plain, wrapped := both.end(t, name)
	require.Equal(t, plain, wrapped)
	require.Equal(t, pipelinev1.TaskRunReasonCancelled.String(), wrapped.Reason)
	return wrapped
}

// With keep-pod-on-cancel, Tekton doesn't delete the pod, but tells the step that
// works by a file, and that tells the next one.
func TestATaskRunWhosePodIsKeptIsCancelledWhileStepsWait(t *testing.T) {
	setKeyForNow(t, "tekton-pipelines", "feature-flags", "keep-pod-on-cancel", "true")
	both := newPair(t)
	var run *pipelinev1.TaskRun
	tries := 0
	eventually(t, time.Minute, "Tekton to know that pods are kept", func() error {
		tries++
		run = whileTheyWait(t, fmt.Sprint("kept-", tries))
		if last := stepsOfNew(t, both.optedIn, run)[2]; !slices.Contains(flagsBeforeCommand(last), "-wait-abort-content=/tekton/downward/cancel") {
			return errors.New("the last step isn't told of a cancellation")
		}
		return nil
	})
	stepsOfNew(t, both.plain, run)
	cancelWhileStepsWait(t, both, run.Name)
	for _, namespace := range []string{both.plain, both.optedIn} {
		p := waitUntilDone(t, namespace, podOfTaskRun(t, namespace, run.Name).Name)
		require.Nil(t, p.DeletionTimestamp)
		codes := map[string]int32{}
		for _, c := range p.Status.ContainerStatuses {
			codes[c.Name] = c.State.Terminated.ExitCode
		}
		require.Equal(t, map[string]int32{"step-works": 9, "step-waits": 1, "step-waits-too": 1}, codes)
	}
}

func TestATaskRunTimesOutWhileStepsWait(t *testing.T) {
	t.Parallel()
	both, run := newPair(t), whileTheyWait(t, "timed-out")
	run.Spec.Timeout = &metav1.Duration{Duration: 2 * time.Minute} // which a pod may take to start
	both.start(t, run)
	plain, wrapped := both.end(t, run.Name)
	require.Equal(t, plain, wrapped)
	require.Equal(t, pipelinev1.TaskRunReasonTimedOut.String(), wrapped.Reason)
	require.Len(t, wrapped.Steps, 3)
}

// Unwrapped, the next step waits until the TaskRun times out
// (https://github.com/tektoncd/pipeline/issues/10371).
func TestATaskRunFailsAtOnceWhenTektonsEntrypointIsKilled(t *testing.T) {
	t.Parallel()
	both, run := newPair(t), whileTheyWait(t, "killed")
	run.Spec.TaskSpec.Steps[0].Args = []string{"$(context.taskRun.namespace)"}
	both.start(t, run)
	for _, namespace := range []string{both.plain, both.optedIn} {
		waitUntilStepsWait(t, namespace, run.Name)
		killTektonsEntrypoint(t, podOfTaskRun(t, namespace, run.Name))
	}

	wrapped := outcomeIn(t, both.optedIn, run.Name)
	require.Equal(t, corev1.ConditionFalse, wrapped.Succeeded)
	require.Equal(t, pipelinev1.TaskRunReasonStepFailed.String(), wrapped.Reason)
	require.Equal(t, []int32{137, 1, 1}, each(wrapped, exitCodeOf))
	require.Equal(t, []string{"", "Skipped", "Skipped"}, each(wrapped, reasonOf), "who was killed gave no reason")

	requireHangs(t, both.plain, run.Name)
	cancelTaskRun(t, both.plain, run.Name)
	require.Equal(t, pipelinev1.TaskRunReasonCancelled.String(), outcomeIn(t, both.plain, run.Name).Reason)
}

// What comes before Tekton's entrypoint may fail, and then that can't tell the
// next step.
func TestATaskRunFailsAtOnceWhenAHookFails(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]map[string]string{
		"supervised":    {},
		"mode-exec":     {"entrypointer.dev/mode": "exec"},
		"hand-off-off":  {handOff: "false"},
		"no-such-file":  {"env-file.entrypointer.dev/step-first": "/nowhere"},
		"no-hook-there": {"before-start.entrypointer.dev/step-first": `["/nowhere"]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := inOneDirectory(t, "/shared")
			spec.Steps = []pipelinev1.Step{script("first", ":"), script("next", ":")}
			run := taskRun("hooked", spec)
			run.Annotations = map[string]string{"before-start.entrypointer.dev/step-first": "exit 3"}
			maps.Copy(run.Annotations, options)
			namespace := optedInNamespace(t)
			stepsOfNew(t, namespace, run)
			got := outcomeIn(t, namespace, run.Name)
			require.Equal(t, pipelinev1.TaskRunReasonStepFailed.String(), got.Reason)
			require.Equal(t, "Skipped", got.Steps[1].TerminationReason)
		})
	}
}

// killTektonsEntrypoint kills the one in a pod that has the pod's namespace as
// an argument. Nothing in a container can kill its PID 1, so it takes a pod
// that shares the node's processes.
func killTektonsEntrypoint(t *testing.T, p *corev1.Pod) {
	t.Helper()
	const find = `for p in /proc/[0-9]*; do
		case "$(tr '\0' ' ' 2>/dev/null < $p/cmdline)" in
		"/tekton/bin/entrypoint "*" $VICTIM "*) kill -9 ${p#/proc/} && exit;;
		esac
	done
	exit 1`
	c := busybox(t, "main", "sh", "-c", find)
	c.Env = []corev1.EnvVar{{Name: "VICTIM", Value: p.Namespace}}
	killer := plainPod("killer", c)
	killer.Spec.HostPID, killer.Spec.NodeName = true, p.Spec.NodeName
	createPod(t, p.Namespace, killer)
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, p.Namespace, "killer").Status.Phase, "killing Tekton's entrypoint in %s", p.Name)
}

// requireHangs sees the first step of a TaskRun killed, and the others wait for
// it some seconds later: Tekton looks every second.
func requireHangs(t *testing.T, namespace, name string) {
	t.Helper()
	hangs := func(context.Context) error {
		run, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Get(t.Context(), name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case !run.Status.GetCondition(apis.ConditionSucceeded).IsUnknown():
			return framework.Permanent(errors.New("it is done"))
		case run.Status.Steps[0].Terminated == nil:
			return errors.New("its first step runs")
		case run.Status.Steps[1].Running == nil || run.Status.Steps[2].Running == nil:
			return framework.Permanent(errors.New("its other steps don't wait"))
		}
		return nil
	}
	what := fmt.Sprintf("TaskRun %q in namespace %q to hang", name, namespace)
	require.NoError(t, framework.Eventually(t.Context(), patience, what, hangs))
	for range 5 {
		time.Sleep(time.Second)
		require.NoError(t, hangs(t.Context()), what)
	}
}
