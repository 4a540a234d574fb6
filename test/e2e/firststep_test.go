// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/test/framework"
)

// knowsOfStarts reports whether the supervisor of a step waits for the starts of all steps.
func knowsOfStarts(c corev1.Container) bool {
	return slices.ContainsFunc(flagsBeforeCommand(c), func(flag string) bool { return strings.HasPrefix(flag, "-wait-instead=") })
}

// Once in a while, Tekton may be as fast.
func TestTheFirstStepRunsBeforeTektonSaysSo(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	for _, length := range []int{1, 3} {
		tries := 0
		eventually(t, muchPatience, fmt.Sprintf("a TaskRun of %d steps to begin before Tekton says so", length), func() error {
			tries++
			run := chain(t, fmt.Sprintf("early-%d-%d", length, tries), length)
			run.Spec.TaskSpec.Steps[0] = script("first", "[ -s /tekton/downward/ready ] && echo late || echo early; touch /order/none /order/1")
			all := stepsOfNew(t, namespace, run)
			if !knowsOfStarts(all[0]) {
				return framework.Permanent(fmt.Errorf("the first step has the flags %q", flagsBeforeCommand(all[0])))
			}
			got := outcomeIn(t, namespace, run.Name)
			if got.Succeeded != corev1.ConditionTrue {
				return framework.Permanent(fmt.Errorf("it became %+v", got))
			}
			if said := logs(t, namespace, podOfTaskRun(t, namespace, run.Name).Name, all[0].Name); said != "early\n" {
				return errors.New("it was " + said)
			}
			return nil
		})
	}
}

// whileOneIsMissing is a TaskRun whose last step has no image.
func whileOneIsMissing(t *testing.T, name string) *pipelinev1.TaskRun {
	t.Helper()
	run := chain(t, name, 2)
	missing := script("missing", ":")
	missing.Image = image(t, "no-such-image-of-entrypointer:1")
	run.Spec.TaskSpec.Steps = append(run.Spec.TaskSpec.Steps, missing)
	run.Spec.TaskSpec.Steps[0] = script("first", "echo ran")
	return run
}

// requireNotRun requires that the first step of a TaskRun doesn't run for some seconds, or
// until the TaskRun has failed.
func requireNotRun(t *testing.T, namespace, name string) {
	t.Helper()
	p := podOfTaskRun(t, namespace, name)
	for range 20 {
		said, err := cluster.Logs(t.Context(), namespace, p.Name, "step-first")
		if err == nil { // Tekton may have deleted the pod, and before that, the container hasn't started
			require.NotContains(t, said, "ran")
		}
		time.Sleep(250 * time.Millisecond)
	}
}

func waitUntilStepRuns(t *testing.T, namespace, podName, container string) {
	t.Helper()
	eventually(t, patience, "container "+container+" to run", func() error {
		p, err := cluster.Kube.CoreV1().Pods(namespace).Get(t.Context(), podName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, s := range p.Status.ContainerStatuses {
			if s.Name == container && s.State.Running != nil {
				return nil
			}
		}
		return errors.New(containerStates(p))
	})
}

func TestNoStepRunsWhileTheImageOfOneCanNotBePulled(t *testing.T) {
	t.Parallel()
	namespace, run := optedInNamespace(t), whileOneIsMissing(t, "missing")
	all := stepsOfNew(t, namespace, run)
	require.True(t, knowsOfStarts(all[0]), "%q", flagsBeforeCommand(all[0]))
	requireNotRun(t, namespace, run.Name)
}

func TestAStepThatIsKilledBeforeAllHaveStartedLetsNoneRun(t *testing.T) {
	t.Parallel()
	namespace, tries := optedInNamespace(t), 0
	var killed *pipelinev1.TaskRun
	eventually(t, 3*time.Minute, "a step to be killed before Tekton gives up the missing image", func() error {
		tries++
		killed = whileOneIsMissing(t, fmt.Sprint("killed-", tries))
		all := stepsOfNew(t, namespace, killed)
		p := podOfTaskRun(t, namespace, killed.Name)
		waitUntilStepRuns(t, namespace, p.Name, all[1].Name)
		_, err := cluster.Exec(t.Context(), namespace, p.Name, all[1].Name, "sh", "-c", "kill -TERM 1")
		return err
	})
	requireNotRun(t, namespace, killed.Name)
}

func TestATaskRunIsCancelledBeforeAllOfItsStepsHaveStarted(t *testing.T) {
	t.Parallel()
	namespace, run := optedInNamespace(t), whileOneIsMissing(t, "cancelled")
	all := stepsOfNew(t, namespace, run)
	waitUntilStepRuns(t, namespace, podOfTaskRun(t, namespace, run.Name).Name, all[0].Name)
	cancelTaskRun(t, namespace, run.Name)
	got := outcomeIn(t, namespace, run.Name)
	require.Equal(t, corev1.ConditionFalse, got.Succeeded)
	require.Equal(t, pipelinev1.TaskRunReasonCancelled.String(), got.Reason)
}

// Tekton asks whether the other webhook's container is ready, as unwrapped.
func TestAContainerThatAnotherWebhookAddsToATaskRunIsWaitedForByTekton(t *testing.T) {
	t.Parallel()
	extra := busybox(t, "extra", "sleep", "3600")
	namespace := meddled(t, "after", func(spec *corev1.PodSpec) {
		if !hasContainer(spec.Containers, "extra") {
			spec.Containers = append(spec.Containers, extra)
		}
	})
	tries := 0
	eventually(t, time.Minute, "the API server to call the other webhook", func() error {
		tries++
		run := chain(t, fmt.Sprint("extended-", tries), 2)
		all := stepsOfNew(t, namespace, run)
		p := podOfTaskRun(t, namespace, run.Name)
		if !hasContainer(p.Spec.Containers, "extra") {
			return errors.New("the pod has no such container")
		}
		require.NoError(t, framework.CheckStepsWrapped(p))
		require.False(t, knowsOfStarts(all[0]), "%q", flagsBeforeCommand(all[0]))
		require.Equal(t, corev1.ConditionTrue, outcomeIn(t, namespace, run.Name).Succeeded)
		return nil
	})
}

// There is nothing to gain where Tekton lets the first step run at once.
func TestWhereTektonDoesNotHoldTheFirstStepNothingElseDoes(t *testing.T) {
	for _, key := range []string{"await-sidecar-readiness", "running-in-environment-with-injected-sidecars"} {
		t.Run(key, func(t *testing.T) {
			setKeyForNow(t, "tekton-pipelines", "feature-flags", key, "false")
			both, tries := newPair(t), 0
			eventually(t, time.Minute, "Tekton not to hold the first step", func() error {
				tries++
				run := chain(t, fmt.Sprint("at-once-", tries), 2)
				all := stepsOfNew(t, both.optedIn, run)
				if slices.Contains(all[0].Args, "-wait_file") {
					return errors.New("it has to wait")
				}
				require.False(t, knowsOfStarts(all[0]), "%q", flagsBeforeCommand(all[0]))
				stepsOfNew(t, both.plain, run)
				plain, wrapped := both.end(t, run.Name)
				require.Equal(t, plain, wrapped)
				return nil
			})
		})
	}
}
