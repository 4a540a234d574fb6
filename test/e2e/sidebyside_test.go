// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"

	"github.com/entrypointer/entrypointer/test/framework"
)

// muchPatience is what a TaskRun may take, tried again or not. Tekton lets its
// first step begin by an annotation that the pod mounts as a file, and now and
// then the kubelet takes a minute and a half to write that, wrapped or not.
const muchPatience = 2 * patience

// outcome is what the order of a TaskRun's steps can have an effect on.
type outcome struct {
	Succeeded corev1.ConditionStatus
	Reason    string
	Results   []pipelinev1.TaskRunResult
	Steps     []stepOutcome
	Earlier   []outcome // tries
}

type stepOutcome struct {
	Name, Reason, TerminationReason string
	ExitCode                        int32
	Results                         []pipelinev1.TaskRunResult
	Inputs, Outputs                 []pipelinev1.TaskRunStepArtifact
}

func outcomeOf(status pipelinev1.TaskRunStatus) outcome {
	condition := status.GetCondition(apis.ConditionSucceeded)
	o := outcome{Succeeded: condition.Status, Reason: condition.Reason, Results: status.Results}
	for _, s := range status.Steps {
		step := stepOutcome{Name: s.Name, TerminationReason: s.TerminationReason, Results: s.Results, Inputs: s.Inputs, Outputs: s.Outputs, Reason: "not terminated"}
		if s.Terminated != nil {
			step.Reason, step.ExitCode = s.Terminated.Reason, s.Terminated.ExitCode
		}
		o.Steps = append(o.Steps, step)
	}
	for _, earlier := range status.RetriesStatus {
		o.Earlier = append(o.Earlier, outcomeOf(earlier))
	}
	return o
}

// each returns one thing of each step.
func each[T any](o outcome, of func(stepOutcome) T) []T {
	var all []T
	for _, s := range o.Steps {
		all = append(all, of(s))
	}
	return all
}

func reasonOf(s stepOutcome) string  { return s.TerminationReason }
func exitCodeOf(s stepOutcome) int32 { return s.ExitCode }

// start starts the same TaskRun in both, and returns once their pods are there:
// in one, all steps are handed over by us, in the other, none is wrapped.
func (both pair) start(t *testing.T, run *pipelinev1.TaskRun) {
	t.Helper()
	both.createTaskRun(t, run)
	require.NoError(t, framework.CheckNotWrapped(podOfTaskRun(t, both.plain, run.Name)))
	wrapped := podOfTaskRun(t, both.optedIn, run.Name)
	require.NoError(t, framework.CheckStepsWrapped(wrapped))
	for _, c := range steps(wrapped) {
		require.Contains(t, flagsBeforeCommand(c), "-post-file="+valueAfter(t, c.Args, "-post_file"), "of step %q", c.Name)
	}
}

func (both pair) createTaskRun(t *testing.T, run *pipelinev1.TaskRun) {
	t.Helper()
	for _, namespace := range []string{both.plain, both.optedIn} {
		_, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Create(t.Context(), run, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

// end waits until the TaskRun is done in both.
func (both pair) end(t *testing.T, name string) (plain, wrapped outcome) {
	t.Helper()
	return outcomeIn(t, both.plain, name), outcomeIn(t, both.optedIn, name)
}

func outcomeIn(t *testing.T, namespace, name string) (o outcome) {
	t.Helper()
	eventually(t, muchPatience, fmt.Sprintf("TaskRun %q in namespace %q to be done", name, namespace), func() error {
		run, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if condition := run.Status.GetCondition(apis.ConditionSucceeded); condition == nil || condition.IsUnknown() {
			return fmt.Errorf("it says %v", condition)
		}
		o = outcomeOf(run.Status)
		return nil
	})
	return o
}

// requireSame runs a TaskRun in a pair of its own, side by side, and returns
// what becomes of it in both.
func requireSame(t *testing.T, run *pipelinev1.TaskRun) outcome {
	t.Helper()
	both := newPair(t)
	both.start(t, run)
	plain, wrapped := both.end(t, run.Name)
	require.Equal(t, plain, wrapped)
	return wrapped
}

func podOfTaskRun(t *testing.T, namespace, name string) (p *corev1.Pod) {
	t.Helper()
	eventually(t, patience, fmt.Sprintf("the pod of TaskRun %q in namespace %q", name, namespace), func() error {
		run, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if run.Status.PodName == "" {
			return fmt.Errorf("there is none: %v", run.Status.GetCondition(apis.ConditionSucceeded))
		}
		p, err = cluster.Kube.CoreV1().Pods(namespace).Get(t.Context(), run.Status.PodName, metav1.GetOptions{})
		return err
	})
	return p
}

// waitUntilStepsWait waits until the first step works, and Tekton knows that
// the others run: they wait for it.
func waitUntilStepsWait(t *testing.T, namespace, name string) {
	t.Helper()
	eventually(t, muchPatience, fmt.Sprintf("the steps of TaskRun %q in namespace %q to run", name, namespace), func() error {
		run, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(run.Status.Steps) == 0 {
			return errors.New("it has none yet")
		}
		for _, s := range run.Status.Steps {
			if s.Running == nil {
				return fmt.Errorf("step %q doesn't run: %+v", s.Name, s.ContainerState)
			}
		}
		log, err := cluster.Logs(t.Context(), namespace, run.Status.PodName, run.Status.Steps[0].Container)
		if err == nil && log == "" {
			err = errors.New("the first has said nothing yet")
		}
		return err
	})
}

func cancelTaskRun(t *testing.T, namespace, name string) {
	t.Helper()
	_, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"spec":{"status":"`+pipelinev1.TaskRunSpecStatusCancelled+`"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
}

// steps are the containers of a pod that are steps.
func steps(p *corev1.Pod) (containers []corev1.Container) {
	names := stepContainers(p)
	for _, c := range p.Spec.Containers {
		if slices.Contains(names, c.Name) {
			containers = append(containers, c)
		}
	}
	return containers
}

// flagsBeforeCommand are those that a wrapped container has for the supervisor.
func flagsBeforeCommand(c corev1.Container) []string {
	return c.Args[:slices.Index(c.Args, "--")]
}

func valueAfter(t *testing.T, args []string, flag string) string {
	t.Helper()
	at := slices.Index(args, flag)
	require.GreaterOrEqual(t, at, 0, "%s in %q", flag, args)
	require.Less(t, at+1, len(args))
	return args[at+1]
}
