// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/pkg/traceids"
)

const (
	spanAbove  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ofPipeline = "11111111-1111-4111-8111-111111111111"
	ofTask     = "22222222-2222-4222-8222-222222222222"
	ofJob      = "33333333-3333-4333-8333-333333333333"
	ofThePod   = "-trace=env:ENTRYPOINTER_POD_UID"
)

// traced returns a pod whose containers trace.
func traced(containers ...corev1.Container) *corev1.Pod {
	return annotated(asking(containers...), "entrypointer.dev/trace", "true")
}

func controlledBy(p *corev1.Pod, version, kind, uid string) *corev1.Pod {
	p.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "batch/v1", Kind: "Job", UID: ofPipeline, Name: "owns-and-controls-nothing"},
		{APIVersion: version, Kind: kind, UID: types.UID(uid), Controller: new(true)},
	}
	return p
}

func withUIDs(p *corev1.Pod, pipelineRun, taskRun string) *corev1.Pod {
	p.Labels = map[string]string{"tekton.dev/pipelineRunUID": pipelineRun, "tekton.dev/taskRunUID": taskRun}
	return p
}

func TestATraceIsTektonsOrBeginsWithTheRun(t *testing.T) {
	one := func() *corev1.Pod { return traced(running("a", "x")) }
	const task, pipeline = "tekton.dev/taskrunSpanContext", "tekton.dev/pipelinerunSpanContext"
	const other = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
	derived := "-trace=00-" + strings.ReplaceAll(ofPipeline, "-", "") + "-8222222222222222-01"
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want []string
	}{
		"the TaskRun's span":                      {annotated(one(), task, `{"traceparent":"`+spanAbove+`"}`, pipeline, `{"traceparent":"`+other+`"}`), []string{"-trace=" + spanAbove}},
		"the PipelineRun's span":                  {annotated(one(), pipeline, `{"traceparent":"`+other+`"}`), []string{"-trace=" + other}},
		"a span before the UIDs":                  {annotated(withUIDs(one(), ofPipeline, ofTask), task, `{"traceparent":"`+spanAbove+`"}`), []string{"-trace=" + spanAbove}},
		"a state, which the kubelet leaves alone": {annotated(one(), task, `{"traceparent":"`+spanAbove+`","tracestate":"a=$(B), c=1"}`), []string{"-trace=" + spanAbove, "-trace-state=a=$$(B),c=1"}},
		"a state that is empty":                   {annotated(one(), task, `{"traceparent":"`+spanAbove+`","tracestate":""}`), []string{"-trace=" + spanAbove}},
		"a state that is malformed":               {annotated(one(), task, `{"traceparent":"`+spanAbove+`","tracestate":"a"}`), []string{"-trace=" + spanAbove}},
		"a state that is too long":                {annotated(one(), task, `{"traceparent":"`+spanAbove+`","tracestate":"a=`+strings.Repeat("1", 250)+`,b=`+strings.Repeat("1", 250)+`,c=`+strings.Repeat("1", 250)+`"}`), []string{"-trace=" + spanAbove}},
		"a header of a later version":             {annotated(one(), task, `{"traceparent":"01`+spanAbove[2:]+`-more"}`), []string{"-trace=" + spanAbove}},
		"both UIDs":                               {withUIDs(one(), ofPipeline, ofTask), []string{derived}},
		"a TaskRun alone":                         {withUIDs(one(), "", ofTask), []string{"-trace=00-" + strings.ReplaceAll(ofTask, "-", "") + "-8222222222222222-01"}},
		"a UID that is none":                      {withUIDs(one(), "$(HOME)", ofTask), []string{"-trace=00-" + strings.ReplaceAll(ofTask, "-", "") + "-8222222222222222-01"}},
		"a TaskRun that only controls":            {controlledBy(one(), "tekton.dev/v1", "TaskRun", ofTask), []string{"-trace=00-" + strings.ReplaceAll(ofTask, "-", "") + "-8222222222222222-01"}},
		"no TaskRun":                              {withUIDs(one(), ofPipeline, "x"), []string{ofThePod}},
		"a Job":                                   {controlledBy(one(), "batch/v1", "Job", ofJob), []string{"-trace=" + ofJob}},
		"a Workflow":                              {controlledBy(one(), "argoproj.io/v1alpha1", "Workflow", ofJob), []string{"-trace=" + ofJob}},
		"a Job whose UID is none":                 {controlledBy(one(), "batch/v1", "Job", "uid"), []string{ofThePod}},
		"somebody else's Job":                     {controlledBy(one(), "example.com/v1", "Job", ofJob), []string{ofThePod}},
		"a ReplicaSet":                            {controlledBy(one(), "apps/v1", "ReplicaSet", ofJob), []string{ofThePod}},
		"a pod of nobody's":                       {one(), []string{ofThePod}},
		"off":                                     {annotated(one(), "entrypointer.dev/trace", "false", task, "{"), nil},
		"off for the container":                   {annotated(one(), "trace.entrypointer.dev/a", "false"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			result := inject(t, newInjector(nil), test.pod)
			require.Empty(t, result.Warnings)
			require.Equal(t, append(test.want, "--", "x"), result.Pod.Spec.Containers[0].Args)
			if len(test.want) > 0 && strings.HasPrefix(test.want[0], "-trace=0") {
				_, ok := traceids.Parse(strings.TrimPrefix(test.want[0], "-trace="))
				require.True(t, ok)
			}
			require.Equal(t, slices.Equal(test.want, []string{ofThePod}), len(result.Pod.Spec.Containers[0].Env) > 0)
			require.Equal(t, pod.AlreadyInjected, inject(t, newInjector(nil), result.Pod).Outcome)
		})
	}
}

func TestAMalformedSpanIsWarnedOfOnceAndTheTraceBeginsWithTheRun(t *testing.T) {
	for _, value := range []string{
		"{", "null", "[]", `{}`, `""`, spanAbove, `{"traceparent":7}`, `{"traceparent":"` + spanAbove + `;"}`, `{"Traceparent":"` + spanAbove + `"}`,
		`{"traceparent":"00-00000000000000000000000000000000-b7ad6b7169203331-01"}`,
		`{"traceparent":"` + spanAbove + `","other":"` + strings.Repeat("x", 5000) + `"}`,
	} {
		p := annotated(withUIDs(traced(running("a", "x"), running("b", "y")), "", ofTask), "tekton.dev/taskrunSpanContext", value)
		result := inject(t, newInjector(nil), p)
		require.Len(t, result.Warnings, 1, value)
		require.Equal(t, pod.ReasonAnnotationHasNoEffect, result.Warnings[0].Reason)
		require.Contains(t, result.Warnings[0].Message, "annotation tekton.dev/taskrunSpanContext has no effect on the trace")
		for _, c := range result.Pod.Spec.Containers {
			require.Equal(t, "-trace=00-22222222222242228222222222222222-8222222222222222-01", c.Args[0])
		}
		delete(p.Annotations, "entrypointer.dev/trace")
		require.Empty(t, inject(t, newInjector(nil), p).Warnings, "nobody asks for a trace")
	}
}

// TestThePodsUIDIsAVariableOfTheContainersThatNeedIt because the API server assigns it after
// admission.
func TestThePodsUIDIsAVariableOfTheContainersThatNeedIt(t *testing.T) {
	a, b := running("a", "x"), running("b", "y")
	a.Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
	before := annotated(asking(a, b), "trace.entrypointer.dev/a", "true")
	result := inject(t, newInjector(nil), before)
	uid := corev1.EnvVar{Name: "ENTRYPOINTER_POD_UID", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.uid"}}}
	require.Equal(t, []corev1.EnvVar{a.Env[0], uid}, result.Pod.Spec.Containers[0].Env)
	require.Empty(t, result.Pod.Spec.Containers[1].Env)
	requireSamePod(t, result.Pod, patched(t, before, result.Pod), "the patch leads elsewhere")
	requireSamePod(t, result.Pod, pod.OursAlone(before, result.Pod), "what is ours")

	another := result.Pod.DeepCopy() // another webhook adds a variable
	another.Spec.Containers[0].Env = append(another.Spec.Containers[0].Env, corev1.EnvVar{Name: "B", Value: "2"})
	require.Equal(t, pod.AlreadyInjected, inject(t, newInjector(nil), another).Outcome)

	another.Annotations["trace.entrypointer.dev/a"] = "false"
	off := inject(t, newInjector(nil), another)
	require.Equal(t, []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}, off.Pod.Spec.Containers[0].Env)
	requireSamePod(t, off.Pod, patched(t, another, off.Pod), "the patch leads elsewhere")
}

func TestAVariableOfThatNameIsItsAuthorsUnlessThePodTraces(t *testing.T) {
	mine := running("a", "x")
	mine.Env = []corev1.EnvVar{{Name: "ENTRYPOINTER_POD_UID", Value: "mine"}}
	_, err := newInjector(nil).Inject(t.Context(), "tenant", traced(mine))
	requireRefused(t, err, pod.NameCollision, `adding variable ENTRYPOINTER_POD_UID to container "a"`, "rename it, or set trace.entrypointer.dev/a to false")

	before := asking(mine)
	result := inject(t, newInjector(nil), before)
	require.Equal(t, mine.Env, result.Pod.Spec.Containers[0].Env)
	requireSamePod(t, result.Pod, pod.OursAlone(before, result.Pod), "what is ours")
	job := inject(t, newInjector(nil), controlledBy(traced(mine), "batch/v1", "Job", ofJob))
	require.Equal(t, mine.Env, job.Pod.Spec.Containers[0].Env, "a Job's UID is known")
}

// TestTheSameVariableIsItsAuthorsToo because the supervisor takes the variable away from the
// command, and a second call has to tell the author's variable from ours.
func TestTheSameVariableIsItsAuthorsToo(t *testing.T) {
	same := running("a", "x", ofThePod, "--")
	same.Env = []corev1.EnvVar{{Name: "ENTRYPOINTER_POD_UID", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.uid"}}}}
	for name, before := range map[string]*corev1.Pod{
		"no trace":           asking(same),
		"the trace of a run": controlledBy(traced(same), "batch/v1", "Job", ofJob),
	} {
		once := inject(t, newInjector(nil), before)
		require.Equal(t, same.Env, once.Pod.Spec.Containers[0].Env, name)
		twice := inject(t, newInjector(nil), once.Pod)
		require.Equal(t, pod.AlreadyInjected, twice.Outcome, name)
		requireSamePod(t, once.Pod, twice.Pod, name)
	}
	_, err := newInjector(nil).Inject(t.Context(), "tenant", traced(same))
	requireRefused(t, err, pod.NameCollision, `adding variable ENTRYPOINTER_POD_UID to container "a"`, "rename it, or set trace.entrypointer.dev/a to false")
}

// TestAnotherCommandLineKeepsTheVariable where another webhook has put a command line in the
// place of the supervisor, and with it of the flag by which the variable is ours.
func TestAnotherCommandLineKeepsTheVariable(t *testing.T) {
	once := inject(t, newInjector(nil), traced(running("a", "x"))).Pod
	another := once.DeepCopy()
	another.Spec.Containers[0].Command, another.Spec.Containers[0].Args = []string{"sleep"}, []string{"5"}
	result := inject(t, newInjector(nil), another).Pod.Spec.Containers[0]
	require.Equal(t, []string{ofThePod, "--", "sleep", "5"}, result.Args)
	require.Equal(t, once.Spec.Containers[0].Env, result.Env)
}

func TestAnImageThatCantBeLookedUpRunsWithoutTheVariable(t *testing.T) {
	injector := newInjector(images{})
	injector.Policy.WaiveFailedLookups = true
	result := inject(t, injector, traced(running("a", "x"), running("b")))
	require.Equal(t, pod.PartlyInjected, result.Outcome)
	require.Len(t, result.Pod.Spec.Containers[0].Env, 1)
	require.Empty(t, result.Pod.Spec.Containers[1].Env)
}

// TestTheStepsOfATaskRunContinueTektonsTrace with the pod that Tekton builds, to which it
// copies the annotations and labels of the TaskRun.
func TestTheStepsOfATaskRunContinueTektonsTrace(t *testing.T) {
	carrier, err := json.Marshal(map[string]string{"traceparent": spanAbove})
	require.NoError(t, err)
	built := tektonPodOf(t, metav1.ObjectMeta{
		Name: "run", Namespace: "tenant", UID: ofTask, Labels: map[string]string{"tekton.dev/pipelineRunUID": ofPipeline},
		Annotations: map[string]string{"entrypointer.dev/trace": "true", "tekton.dev/taskrunSpanContext": string(carrier)},
	}, pipelinev1.TaskSpec{Steps: []pipelinev1.Step{
		{Name: "build", Image: "busybox", Command: []string{"make"}},
		{Name: "test", Image: "busybox", Command: []string{"make"}, Args: []string{"test"}},
	}})
	result := inject(t, newInjector(nil), built)
	requireGolden(t, "taskrun-trace", result.Pod)

	delete(built.Annotations, "tekton.dev/taskrunSpanContext")
	for _, c := range inject(t, newInjector(nil), built).Pod.Spec.Containers {
		require.Contains(t, c.Args, "-trace=00-11111111111141118111111111111111-8222222222222222-01", "Tekton doesn't trace")
	}
}

// FuzzNoSpanOfATenantRefusesAPod or becomes more than a header.
func FuzzNoSpanOfATenantRefusesAPod(f *testing.F) {
	f.Add(`{"traceparent":"`+spanAbove+`","tracestate":"a=$(B)"}`, ofPipeline, ofTask)
	f.Add(`{"traceparent":"ff-`+spanAbove[3:]+`"}`, "", "")
	f.Fuzz(func(t *testing.T, value, pipelineRun, taskRun string) {
		p := annotated(withUIDs(traced(running("a", "x")), pipelineRun, taskRun), "tekton.dev/pipelinerunSpanContext", value)
		result, err := newInjector(nil).Inject(t.Context(), "tenant", p)
		require.NoError(t, err)
		args := result.Pod.Spec.Containers[0].Args
		at := slices.Index(args, "--")
		require.Contains(t, []int{1, 2}, at)
		given, is := strings.CutPrefix(args[0], "-trace=")
		require.True(t, is)
		if args[0] != ofThePod {
			parent, ok := traceids.Parse(given)
			require.True(t, ok, given)
			require.Equal(t, given, parent.String())
		}
		if at == 2 {
			state := strings.ReplaceAll(strings.TrimPrefix(args[1], "-trace-state="), "$$", "$")
			clean, ok := traceids.ParseState(state)
			require.True(t, ok)
			require.Equal(t, state, clean)
		}
	})
}
