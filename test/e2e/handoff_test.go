// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/selection"
	"knative.dev/pkg/apis"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/kit"
)

// inOrder is a step that fails unless the one before it, $0, has left its mark,
// and leaves its own, $1, as the last thing that it does.
const inOrder = `[ "$0" = none ] || [ -e "/order/$0" ] || { echo "started before $0 had ended"; exit 9; }; sleep 0.1; touch "/order/$1"`

// chain is a TaskRun of steps that are called 1, 2 and so on, each of which
// sees to it that the one before has ended.
func chain(t *testing.T, name string, length int) *pipelinev1.TaskRun {
	t.Helper()
	spec := inOneDirectory(t, "/order")
	before := "none"
	for i := range length {
		own := strconv.Itoa(i + 1)
		spec.Steps = append(spec.Steps, pipelinev1.Step{Name: own, Command: []string{"sh", "-c", inOrder}, Args: []string{before, own}})
		before = own
	}
	return taskRun(name, spec)
}

// inOneDirectory is a Task whose steps share a directory.
func inOneDirectory(t *testing.T, path string) pipelinev1.TaskSpec {
	t.Helper()
	return pipelinev1.TaskSpec{
		StepTemplate: &pipelinev1.StepTemplate{
			Image:        image(t, "busybox:1.37"),
			VolumeMounts: []corev1.VolumeMount{{Name: "shared", MountPath: path}},
		},
		Volumes: []corev1.Volume{{Name: "shared", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
}

// script is a step that sh runs.
func script(name, text string) pipelinev1.Step {
	return pipelinev1.Step{Name: name, Script: "#!/bin/sh\nset -e\n" + text + "\n"}
}

func TestStepsAreHandedOverInOrder(t *testing.T) {
	t.Parallel()
	for _, length := range []int{1, 2, 8, 20} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			t.Parallel()
			got := requireSame(t, chain(t, "chain", length))
			require.Equal(t, corev1.ConditionTrue, got.Succeeded, "%+v", got)
			require.Len(t, got.Steps, length)
		})
	}
}

func TestManyTaskRunsAtOnceHandTheirStepsOverInOrder(t *testing.T) {
	t.Parallel()
	both := newPair(t)
	const runs = 5 // in each
	for i := range runs {
		both.createTaskRun(t, chain(t, fmt.Sprint("run-", i), 3))
	}
	for i := range runs {
		plain, wrapped := both.end(t, fmt.Sprint("run-", i))
		require.Equal(t, plain, wrapped)
		require.Equal(t, corev1.ConditionTrue, wrapped.Succeeded, "%+v", wrapped)
	}
}

func TestNoStepStartsBeforeTheSidecarIsReady(t *testing.T) {
	t.Parallel()
	spec := inOneDirectory(t, "/shared")
	spec.Sidecars = []pipelinev1.Sidecar{{
		Name: "late", Image: spec.StepTemplate.Image, VolumeMounts: spec.StepTemplate.VolumeMounts,
		Command: []string{"sh", "-c", "sleep 3; touch /shared/ready; sleep 3600"},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
			Exec: &corev1.ExecAction{Command: []string{"test", "-e", "/shared/ready"}},
		}},
	}}
	spec.Steps = []pipelinev1.Step{script("first", "test -e /shared/ready; touch /shared/first"), script("second", "test -e /shared/first")}
	got := requireSame(t, taskRun("late", spec))
	require.Equal(t, corev1.ConditionTrue, got.Succeeded, "%+v", got)
}

func TestTheStepsAfterOneThatFailsAreSkipped(t *testing.T) {
	t.Parallel()
	spec := inOneDirectory(t, "/shared")
	spec.Steps = []pipelinev1.Step{script("works", ":"), script("fails", "exit 42"), script("next", ":"), script("last", ":")}
	got := requireSame(t, taskRun("fails", spec))
	require.Equal(t, corev1.ConditionFalse, got.Succeeded)
	require.Equal(t, []int32{0, 42, 1, 1}, each(got, exitCodeOf))
	require.Equal(t, []string{"Completed", "Error", "Skipped", "Skipped"}, each(got, reasonOf))
}

func TestTheStepsAfterOneWhoseFailureIsToleratedRun(t *testing.T) {
	t.Parallel()
	spec := inOneDirectory(t, "/shared")
	fails := script("fails", "touch /shared/failed; exit 3")
	fails.OnError = pipelinev1.Continue
	spec.Steps = []pipelinev1.Step{fails, script("next", "test -e /shared/failed"), script("last", ":")}
	got := requireSame(t, taskRun("continues", spec))
	require.Equal(t, corev1.ConditionTrue, got.Succeeded, "%+v", got)
	require.Equal(t, []int32{3, 0, 0}, each(got, exitCodeOf))
	require.Equal(t, []string{"Continued", "Completed", "Completed"}, each(got, reasonOf))
}

// The time that a step waits isn't part of the time that it may take.
func TestAStepThatTakesTooLongFailsAndOneThatWaitedLongerDoesNot(t *testing.T) {
	t.Parallel()
	spec := inOneDirectory(t, "/shared")
	waits, late := script("waits", ":"), script("late", "sleep 3600")
	waits.Timeout, late.Timeout = &metav1.Duration{Duration: 3 * time.Second}, &metav1.Duration{Duration: time.Second}
	spec.Steps = []pipelinev1.Step{script("slow", "sleep 5"), waits, late, script("skipped", ":")}
	got := requireSame(t, taskRun("step-timeout", spec))
	require.Equal(t, corev1.ConditionFalse, got.Succeeded)
	require.Equal(t, []string{"Completed", "Completed", "TimeoutExceeded", "Skipped"}, each(got, reasonOf))
}

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
	for _, namespace := range []string{both.plain, both.optedIn} {
		waitUntilStepsWait(t, namespace, run.Name)
		cancelTaskRun(t, namespace, run.Name)
	}
	plain, wrapped := both.end(t, run.Name)
	require.Equal(t, plain, wrapped)
	require.Equal(t, pipelinev1.TaskRunReasonCancelled.String(), wrapped.Reason)
	require.Len(t, wrapped.Steps, 3)
}

func TestATaskRunTimesOutWhileStepsWait(t *testing.T) {
	t.Parallel()
	both, run := newPair(t), whileTheyWait(t, "timed-out")
	run.Spec.Timeout = &metav1.Duration{Duration: 25 * time.Second} // more than a pod takes to start
	both.start(t, run)
	plain, wrapped := both.end(t, run.Name)
	require.Equal(t, plain, wrapped)
	require.Equal(t, pipelinev1.TaskRunReasonTimedOut.String(), wrapped.Reason)
	require.Len(t, wrapped.Steps, 3)
}

func TestResultsGoFromStepToStep(t *testing.T) {
	t.Parallel()
	spec := inOneDirectory(t, "/shared")
	spec.Results = []pipelinev1.TaskResult{{Name: "sum"}}
	one, two := script("one", "printf 20 > $(step.results.n.path)"), script("two", "printf 22 > $(step.results.n.path)")
	one.Results, two.Results = []pipelinev1.StepResult{{Name: "n"}}, []pipelinev1.StepResult{{Name: "n"}}
	sum := script("sum", `printf "$((ONE + TWO))" > $(results.sum.path)`)
	sum.Env = []corev1.EnvVar{{Name: "ONE", Value: "$(steps.one.results.n)"}, {Name: "TWO", Value: "$(steps.two.results.n)"}}
	spec.Steps = []pipelinev1.Step{one, two, sum, script("check", "test $(cat $(results.sum.path)) = 42")}
	got := requireSame(t, taskRun("results", spec))
	require.Equal(t, corev1.ConditionTrue, got.Succeeded, "%+v", got)
	require.Len(t, got.Results, 1)
	require.Equal(t, "42", got.Results[0].Value.StringVal)
}

func TestAStepRunsOrNotByTheResultOfTheOneBefore(t *testing.T) {
	t.Parallel()
	spec := inOneDirectory(t, "/shared")
	says := script("says", "printf yes > $(step.results.word.path)")
	says.Results = []pipelinev1.StepResult{{Name: "word"}}
	when := func(s pipelinev1.Step, word string) pipelinev1.Step {
		s.When = pipelinev1.StepWhenExpressions{{Input: "$(steps.says.results.word)", Operator: selection.In, Values: []string{word}}}
		return s
	}
	spec.Steps = []pipelinev1.Step{
		says, when(script("yes", "touch /shared/yes"), "yes"), when(script("no", "touch /shared/no"), "no"),
		script("check", "test -e /shared/yes; ! test -e /shared/no"),
	}
	got := requireSame(t, taskRun("when", spec))
	require.Equal(t, corev1.ConditionTrue, got.Succeeded, "%+v", got)
	require.Equal(t, []string{"Completed", "Completed", "Skipped", "Completed"}, each(got, reasonOf))
}

func TestATaskRunThatIsTriedAgainHandsItsStepsOverAgain(t *testing.T) {
	t.Parallel()
	spec := inOneDirectory(t, "/shared")
	spec.Steps = []pipelinev1.Step{script("works", "touch /shared/worked"), script("fails-once", "test -e /shared/worked; test $(context.task.retry-count) -gt 0"), script("last", ":")}
	run := taskRun("retries", spec)
	run.Spec.Retries = 1
	got := requireSame(t, run)
	require.Equal(t, corev1.ConditionTrue, got.Succeeded, "%+v", got)
	require.Len(t, got.Earlier, 1)
	require.Equal(t, []string{"Completed", "Error", "Skipped"}, each(got.Earlier[0], reasonOf))
}

func TestTurnedOffTektonWaitsAsEver(t *testing.T) {
	t.Parallel()
	const handOff = "entrypointer.dev/hand-off"
	both := newPair(t)
	off := newNamespace(t, map[string]string{pod.InjectAnnotation: "true", handOff: "false"}).Name
	create := func(namespace string, annotations map[string]string) []corev1.Container {
		run := chain(t, "off", 2)
		run.Annotations = annotations
		_, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Create(t.Context(), run, metav1.CreateOptions{})
		require.NoError(t, err)
		return steps(podOfTaskRun(t, namespace, run.Name))
	}
	plain := create(both.plain, nil)
	for namespace, wrapped := range map[string][]corev1.Container{
		off:          create(off, nil),
		both.optedIn: create(both.optedIn, map[string]string{handOff: "false"}),
	} {
		require.Len(t, wrapped, len(plain))
		for i, c := range wrapped {
			require.Equal(t, []string{pod.EntrypointPath}, c.Command)
			require.Equal(t, slices.Concat([]string{"--"}, plain[i].Command, plain[i].Args), c.Args)
		}
		require.Equal(t, corev1.ConditionTrue, outcomeIn(t, namespace, "off").Succeeded)
	}
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
			return kit.GiveUp(errors.New("it is done"))
		case run.Status.Steps[0].Terminated == nil:
			return errors.New("its first step runs")
		case run.Status.Steps[1].Running == nil || run.Status.Steps[2].Running == nil:
			return kit.GiveUp(errors.New("its other steps don't wait"))
		}
		return nil
	}
	what := fmt.Sprintf("TaskRun %q in namespace %q to hang", name, namespace)
	require.NoError(t, kit.Eventually(t.Context(), patience, what, hangs))
	for range 5 {
		time.Sleep(time.Second)
		require.NoError(t, hangs(t.Context()), what)
	}
}
