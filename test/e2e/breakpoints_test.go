// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
)

// Tekton puts these into the containers of a TaskRun with breakpoints.
const (
	continueBefore = "/tekton/debug/scripts/debug-beforestep-continue"
	failBefore     = "/tekton/debug/scripts/debug-beforestep-fail-continue"
	continueAfter  = "/tekton/debug/scripts/debug-continue"
	failAfter      = "/tekton/debug/scripts/debug-fail-continue"
)

// debugged is a TaskRun with a step in the middle that waits for whoever
// debugs it, and one after it that must not begin before.
//
// Tekton takes no breakpoints before steps without the one after a failure.
func debugged(t *testing.T, middle string, before ...string) *pipelinev1.TaskRun {
	t.Helper()
	spec := inOneDirectory(t, "/shared")
	spec.Steps = []pipelinev1.Step{script("first", ":"), script("middle", middle), script("last", "test -e /shared/decided")}
	run := taskRun("debugged", spec)
	run.Spec.Debug = &pipelinev1.TaskRunDebug{Breakpoints: &pipelinev1.TaskBreakpoints{OnFailure: pipelinev1.EnabledOnFailureBreakpoint, BeforeSteps: before}}
	return run
}

// atBreakpoint runs a TaskRun in both namespaces, has somebody decide, and returns
// what becomes of it.
func atBreakpoint(t *testing.T, run *pipelinev1.TaskRun, says, decision string) (plain, wrapped outcome) {
	t.Helper()
	both := newPair(t)
	both.createTaskRun(t, run)
	for _, namespace := range []string{both.plain, both.optedIn} {
		decide(t, namespace, run.Name, says, decision)
	}
	return both.end(t, run.Name)
}

// decide waits until the step in the middle says something, and runs a script of
// Tekton's in there.
func decide(t *testing.T, namespace, taskRun, says, decision string) {
	t.Helper()
	p := podOfTaskRun(t, namespace, taskRun)
	eventually(t, muchPatience, fmt.Sprintf("step \"middle\" of pod %q in namespace %q to say %q", p.Name, namespace, says), func() error {
		log, err := cluster.Logs(t.Context(), namespace, p.Name, "step-middle")
		if err == nil && !strings.Contains(log, says) {
			err = fmt.Errorf("it says %q", log)
		}
		return err
	})
	_, err := cluster.Exec(t.Context(), namespace, p.Name, "step-middle", "sh", "-c", "touch /shared/decided; exec "+decision)
	require.NoError(t, err)
}

func TestAStepWithABreakpointBeforeItStartsWhenItIsAllowedTo(t *testing.T) {
	t.Parallel()
	run := debugged(t, "test -e /shared/decided", "middle")
	for decision, want := range map[string][]int32{continueBefore: {0, 0, 0}, failBefore: {0, 1, 0}} {
		t.Run(decision[strings.LastIndex(decision, "/")+1:], func(t *testing.T) {
			t.Parallel()
			plain, wrapped := atBreakpoint(t, run, "breakpoint has taken effect", decision)
			require.Equal(t, plain, wrapped)
			require.Equal(t, want, each(wrapped, exitCodeOf))
		})
	}
}

// Tekton runs such a step, so its hook is run as well.
func TestAStepAfterOneThatFailedAtABreakpointHasItsHooks(t *testing.T) {
	t.Parallel()
	run := debugged(t, "echo failing; exit 3")
	run.Spec.TaskSpec.Steps[2] = script("last", "test -e /shared/hooked")
	run.Annotations = map[string]string{"before-start.entrypointer.dev/step-last": "touch /shared/hooked"}
	namespace := optedInNamespace(t)
	stepsOfNew(t, namespace, run)
	decide(t, namespace, run.Name, "failing", failAfter)
	require.Equal(t, []int32{0, 1, 0}, each(outcomeIn(t, namespace, run.Name), exitCodeOf))
}

func TestAStepThatFailedAtABreakpointHoldsTheNextOneUntilItIsDecided(t *testing.T) {
	t.Parallel()
	run := debugged(t, "echo failing; exit 3")
	for decision, succeeded := range map[string]corev1.ConditionStatus{continueAfter: corev1.ConditionTrue, failAfter: corev1.ConditionFalse} {
		t.Run(decision[strings.LastIndex(decision, "/")+1:], func(t *testing.T) {
			t.Parallel()
			plain, wrapped := atBreakpoint(t, run, "failing", decision)
			require.Equal(t, plain, wrapped)
			require.Equal(t, succeeded, wrapped.Succeeded, "%+v", wrapped)
			require.Len(t, wrapped.Steps, 3)
		})
	}
}
