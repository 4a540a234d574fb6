// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	tektonpod "github.com/tektoncd/pipeline/pkg/pod"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	logtesting "knative.dev/pkg/logging/testing"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/tektonpods"
)

// What Tekton v1.15.0 carries is 80 TaskRuns; 74 of them make pods by
// themselves, the others are resolved from elsewhere. Should the numbers
// collapse, then these tests would prove nothing.
const (
	leastExamples = 80
	leastPods     = 74
	leastWrapped  = 72 // two are for Windows
)

// Every example of Tekton's own, in pods made by Tekton's own builder, by
// Tekton's settings that change the shape of a pod.
func TestEveryExampleOfTektons(t *testing.T) {
	examples := tektonpods.Examples(t)
	require.GreaterOrEqual(t, len(examples), leastExamples)
	for name, flags := range tektonpods.Flags {
		t.Run(name, func(t *testing.T) {
			summary := map[string]string{}
			pods, wrapped := 0, 0
			for _, example := range examples {
				built, reason := example.Build(t, flags)
				if reason != "" {
					summary[example.Name] = "no pod: " + reason
					continue
				}
				pods++
				result := inject(t, newInjector(nil), built)
				summary[example.Name] = summarize(built, result)
				requireStepsWrapped(t, example.Name, built, result)
				if result.Outcome == pod.Injected {
					wrapped++
				}
			}
			t.Logf("%d examples, %d pods, %d of them wrapped", len(examples), pods, wrapped)
			require.GreaterOrEqual(t, pods, leastPods)
			require.GreaterOrEqual(t, wrapped, leastWrapped)
			if name == "defaults" {
				requireGolden(t, "tekton-examples", summary)
			}
		})
	}
}

// requireStepsWrapped says that the steps are wrapped, Tekton's command line
// behind the dashes to the byte, that nothing else changed, and that this is so
// after the way through JSON and a second time, too.
func requireStepsWrapped(t *testing.T, name string, before *corev1.Pod, result pod.Result) {
	t.Helper()
	if result.Outcome == pod.Windows {
		require.Empty(t, result.Wrapped, name)
		requireOnlyOurs(t, encode(t, before), encode(t, result.Pod), nil)
		return
	}
	require.Equal(t, pod.Injected, result.Outcome, name)
	require.Equal(t, stepsOf(before), result.Wrapped, name)
	for i, c := range before.Spec.Containers {
		if slices.Contains(result.Wrapped, c.Name) {
			require.Equal(t, slices.Concat(c.Command, c.Args), behindDashes(t, result.Pod.Spec.Containers[i].Args), "%s: %s", name, c.Name)
			require.Equal(t, "/tekton/bin/entrypoint", c.Command[0], name)
		}
	}
	require.Equal(t, pod.InitContainerName, result.Pod.Spec.InitContainers[0].Name, name)
	_, err := requireSound(t, newInjector(nil), encode(t, before))
	require.NoError(t, err, name)
}

func stepsOf(p *corev1.Pod) []string {
	var steps []string
	for _, c := range p.Spec.Containers {
		if tektonpod.IsContainerStep(c.Name) {
			steps = append(steps, c.Name)
		}
	}
	return steps
}

// summarize is one line for a golden file that people read.
func summarize(before *corev1.Pod, result pod.Result) string {
	steps, all := len(stepsOf(before)), len(before.Spec.InitContainers)+len(before.Spec.Containers)
	wrappedSteps := 0
	for _, name := range result.Wrapped {
		if tektonpod.IsContainerStep(name) {
			wrappedSteps++
		}
	}
	return fmt.Sprintf("%s, steps %d/%d, others %d/%d", result.Outcome, wrappedSteps, steps, len(result.Wrapped)-wrappedSteps, all-steps)
}

// What Tekton reads back off a pod, and does to it, comes out the same of a
// wrapped one, whatever has become of it.
func TestTektonReadsEveryWrappedExampleAsItReadsThePlainOne(t *testing.T) {
	read, client := 0, fake.NewClientset()
	for _, example := range tektonpods.Examples(t) {
		plain, reason := example.Build(t, tektonpods.Flags["defaults"])
		if reason != "" {
			continue
		}
		wrapped := inject(t, newInjector(nil), plain).Pod
		for fate, state := range fates {
			t.Run(example.Name+"/"+fate, func(t *testing.T) {
				require.Equal(t, readBack(t, example, client, befall(plain, state)), readBack(t, example, client, befall(wrapped, state)))
			})
			read++
		}
	}
	require.GreaterOrEqual(t, read, leastPods*len(fates))
}

// fate is what became of a pod: its phase, and the state of each container.
type fate struct {
	phase corev1.PodPhase
	state func(name string) corev1.ContainerState
}

func ended(code int32, reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason,
		Message: `[{"key":"StartedAt","value":"2026-01-02T03:04:05.000Z","type":3},{"key":"digest","value":"sha256:1","type":1}]`,
	}}
}

// ofSteps is a state that the steps have; sidecars run.
func ofSteps(state corev1.ContainerState) func(string) corev1.ContainerState {
	return func(name string) corev1.ContainerState {
		if tektonpod.IsContainerStep(name) {
			return state
		}
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	}
}

var fates = map[string]fate{
	"running":   {corev1.PodRunning, ofSteps(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})},
	"done":      {corev1.PodRunning, ofSteps(ended(0, "Completed"))},
	"succeeded": {corev1.PodSucceeded, func(string) corev1.ContainerState { return ended(0, "Completed") }},
	"failed":    {corev1.PodFailed, ofSteps(ended(3, "Error"))},
	"killed":    {corev1.PodFailed, ofSteps(ended(137, "OOMKilled"))},
	"no image": {corev1.PodPending, func(string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}}
	}},
}

// befall returns the pod with the status that a kubelet would give it. Init
// containers are done by then, but for native sidecars.
func befall(p *corev1.Pod, happened fate) *corev1.Pod {
	p = p.DeepCopy()
	p.Status.Phase = happened.phase
	for _, c := range p.Spec.InitContainers {
		state := ended(0, "Completed")
		state.Terminated.Message = ""
		if c.RestartPolicy != nil {
			state = happened.state(c.Name)
		}
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, corev1.ContainerStatus{Name: c.Name, State: state})
	}
	for _, c := range p.Spec.Containers {
		state := happened.state(c.Name)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, State: state, Ready: state.Running != nil, ImageID: "image@sha256:1",
		})
	}
	return p
}

// reading is all that Tekton's exported functions say of a pod.
type reading struct {
	Status                  string
	Err                     string
	SidecarsReady           bool
	DidTaskRunFail          bool
	IsPodExceedingResources bool
	ImagesAfterStop         map[string]string
	Annotations             map[string]string
}

// readBack puts the pod into the cluster for a while.
func readBack(t *testing.T, e *tektonpods.Example, client *fake.Clientset, p *corev1.Pod) reading {
	t.Helper()
	ctx := logtesting.TestContextWithLogger(t)
	pods := client.CoreV1().Pods(p.Namespace)
	_, err := pods.Create(ctx, p, metav1.CreateOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, pods.Delete(ctx, p.Name, metav1.DeleteOptions{})) }()
	spec := e.Spec.DeepCopy()
	run := e.Run.DeepCopy()
	run.Status = pipelinev1.TaskRunStatus{TaskRunStatusFields: pipelinev1.TaskRunStatusFields{TaskSpec: spec}}

	status, err := tektonpod.MakeTaskRunStatus(ctx, logtesting.TestLogger(t), *run, p, client, spec)
	got := reading{
		Status:                  withoutTimes(t, status),
		Err:                     fmt.Sprint(err),
		SidecarsReady:           tektonpod.SidecarsReady(p.Status),
		DidTaskRunFail:          tektonpod.DidTaskRunFail(p),
		IsPodExceedingResources: tektonpod.IsPodExceedingNodeResources(p),
		ImagesAfterStop:         map[string]string{},
	}
	stopped, err := tektonpod.StopSidecars(ctx, "nop", client, p.Namespace, p.Name)
	require.NoError(t, err)
	for _, c := range stopped.Spec.Containers {
		got.ImagesAfterStop[c.Name] = c.Image
	}
	require.NoError(t, tektonpod.UpdateReady(ctx, client, *p))
	readied, err := pods.Get(ctx, p.Name, metav1.GetOptions{})
	require.NoError(t, err)
	for _, key := range []string{pod.StatusAnnotation, safeToEvict} {
		delete(readied.Annotations, key)
	}
	got.Annotations = readied.Annotations
	return got
}

// withoutTimes is the status but for the moments at which it was made.
func withoutTimes(t *testing.T, status pipelinev1.TaskRunStatus) string {
	t.Helper()
	for i := range status.Conditions {
		status.Conditions[i].LastTransitionTime.Inner = metav1.Time{}
	}
	status.StartTime, status.CompletionTime = nil, nil
	encoded, err := json.MarshalIndent(status, "", " ")
	require.NoError(t, err)
	return string(encoded)
}
