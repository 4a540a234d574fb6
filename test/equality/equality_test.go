// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package equality

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"knative.dev/pkg/apis"
)

var here = ClusterCapabilities{
	Images: map[string]string{"ubuntu": "local/ubuntu", "busybox": "local/busybox", "nop": "local/nop"},
	Nodes:  []map[string]string{{"kubernetes.io/os": "linux"}},
	Scope: func(kind schema.GroupVersionKind) (namespaced, served bool) {
		return kind.Kind != "ClusterRole", kind.Kind != "SecretProviderClass"
	},
}

func parsed(t *testing.T, content string) Example {
	t.Helper()
	example, err := parse("taskruns/some", []byte(content), here)
	require.NoError(t, err)
	return example
}

const run = `
---
apiVersion: tekton.dev/v1
kind: TaskRun
metadata: {generateName: some-, namespace: default}
`

func TestTheLastElementOfARepositoryIsItsKind(t *testing.T) {
	const digest = "@sha256:5a587635b5b355d51def6380ba344ff42a52fa7c60013f405df3bba80b0702e4"
	for reference, want := range map[string]string{
		"ubuntu":                                "ubuntu",
		"mirror.gcr.io/ubuntu" + digest:         "ubuntu",
		"mirror.gcr.io/library/bash:5.1.4":      "bash",
		"mirror.gcr.io/bash:5.1.4" + digest:     "bash",
		"localhost:5000/node:lts-alpine3.20":    "node",
		"localhost:5000/node":                   "node",
		"mirror.gcr.io/alpine/git:v2.26.2":      "git",
		"mcr.microsoft.com/windows/server:1809": "server",
		"ghcr.io/tektoncd/pipeline/nop-8eac7c133edad5df719dc37b36b62482" + digest: "nop",
	} {
		require.Equal(t, want, kind(reference), reference)
	}
}

func TestImagesAreReplacedWhereverTheyAre(t *testing.T) {
	example := parsed(t, `
apiVersion: tekton.dev/v1beta1
kind: StepAction
metadata: {name: action}
spec: {image: busybox:1.37}
---
apiVersion: tekton.dev/v1
kind: TaskRun
metadata: {name: run}
spec:
  params:
  - {name: builder, value: docker.io/library/ubuntu}
  - {name: greeting, value: ubuntu}
  taskSpec:
    params:
    - {name: builder, default: "ubuntu:24.04"}
    stepTemplate: {image: $(params.builder)}
    steps:
    - image: mirror.gcr.io/ubuntu@sha256:0d39fcc8335d6d74d5502f6df2d30119ff4790ebbb60b364818d5112d9e3e932
    sidecars:
    - image: $(params.builder)
`)
	require.Nil(t, example.Skipped)
	require.Equal(t, "local/busybox", example.Needs[0].Object["spec"].(map[string]any)["image"])
	spec := example.Runs[0].Object["spec"].(map[string]any)
	require.Equal(t, []any{
		map[string]any{"name": "builder", "value": "local/ubuntu"},
		map[string]any{"name": "greeting", "value": "ubuntu"},
	}, spec["params"])
	task := spec["taskSpec"].(map[string]any)
	require.Equal(t, []any{map[string]any{"name": "builder", "default": "local/ubuntu"}}, task["params"])
	require.Equal(t, []any{map[string]any{"image": "local/ubuntu"}}, task["steps"])
	require.Equal(t, []any{map[string]any{"image": "$(params.builder)"}}, task["sidecars"])
}

func TestARuleSaysWhyAnExampleDoesNotRun(t *testing.T) {
	for content, want := range map[string]Skipped{
		"spec: {taskRef: {resolver: git}}":                                           {Resolver, "git"},
		"spec: {taskSpec: {steps: [{image: golang}, {image: 'r.io/a/b@sha256:0'}]}}": {ForeignImage, "golang, r.io/a/b@sha256:0"},
		"spec: {podTemplate: {nodeSelector: {node-type: big}}}":                      {OtherNode, "map[node-type:big]"},
		"---\nkind: SecretProviderClass\napiVersion: csi/v1":                         {UnknownKind, "SecretProviderClass"},
		"---\nkind: ClusterRole\napiVersion: rbac.authorization.k8s.io/v1":           {OutsideNamespace, "ClusterRole"},
	} {
		require.Equal(t, &want, parsed(t, run+content).Skipped, content)
	}
	require.Nil(t, parsed(t, run+"spec: {podTemplate: {nodeSelector: {kubernetes.io/os: linux}}}").Skipped)
}

func TestNamesAreTheSameInEveryRun(t *testing.T) {
	example := parsed(t, run+run)
	require.Len(t, example.Runs, 2)
	require.Equal(t, "some", example.Runs[0].GetName())
	require.Equal(t, "some-2", example.Runs[1].GetName())
	for _, object := range example.Runs {
		require.Empty(t, object.GetGenerateName())
		require.Empty(t, object.GetNamespace())
	}
}

func taskRun(message, result string, exitCode int32) *pipelinev1.TaskRun {
	run := &pipelinev1.TaskRun{}
	run.Namespace = "e2e-x"
	run.Status.SetCondition(&apis.Condition{Type: apis.ConditionSucceeded, Status: corev1.ConditionFalse, Reason: "Failed", Message: message})
	run.Status.Results = []pipelinev1.TaskRunResult{{Name: "date", Value: *pipelinev1.NewStructuredValues(result)}}
	step := pipelinev1.StepState{Name: "build"}
	step.Terminated = &corev1.ContainerStateTerminated{ExitCode: exitCode, Reason: "Error"}
	run.Status.Steps = []pipelinev1.StepState{step}
	return run
}

func outcome(message, result string, exitCode int32) Outcome {
	o := Outcome{}
	o.AddTaskRun("run", taskRun(message, result, exitCode))
	return o
}

func TestAnOutcomeSaysWhatTheStatusSays(t *testing.T) {
	failed := taskRun("step build in e2e-x failed", "today", 7)
	run := &pipelinev1.TaskRun{Status: failed.Status}
	run.Status.RetriesStatus = []pipelinev1.TaskRunStatus{failed.Status}
	o := Outcome{}
	o.AddTaskRun("run", run)
	require.Equal(t, "7", o["run/steps/0/exitCode"])
	require.Equal(t, "7", o["run/retries/0/steps/0/exitCode"])
	require.Equal(t, `"today"`, o["run/results/date"])
	require.Equal(t, "failed: Failed", o.Verdict("run"))
	require.Equal(t, "step build in NAMESPACE failed", outcome("step build in e2e-x failed", "", 0)["run/message"])
}

func TestAnOutcomeSaysWhatThePipelineRunSays(t *testing.T) {
	run := &pipelinev1.PipelineRun{}
	run.Status.Results = []pipelinev1.PipelineRunResult{{Name: "sum", Value: *pipelinev1.NewStructuredValues("3")}}
	run.Status.SkippedTasks = []pipelinev1.SkippedTask{{Name: "never", Reason: "When Expressions evaluated to false"}}
	run.Status.ChildReferences = []pipelinev1.ChildStatusReference{{Name: "run-first", PipelineTaskName: "first"}}
	run.Status.ChildReferences[0].Kind = "TaskRun"
	o := Outcome{}
	o.AddPipelineRun("run", run)
	require.Equal(t, Outcome{
		"run/results/sum":        `"3"`,
		"run/skipped/never":      "When Expressions evaluated to false",
		"run/children/run-first": "TaskRun first",
	}, o)
}

func TestADifferenceIsOneUnlessTheExampleDiffersFromItself(t *testing.T) {
	plain, wrapped := outcome("no", "10:00", 1), outcome("no", "10:01", 2)
	c := Comparison{[]Outcome{plain}, wrapped}
	require.Equal(t, []string{"run/results/date", "run/steps/0/exitCode"}, c.Differs())
	require.Empty(t, Varies(c.Plain))

	c.Plain = append(c.Plain, outcome("no", "10:02", 1))
	require.Equal(t, []string{"run/steps/0/exitCode"}, c.Differs())
	require.Equal(t, []string{"run/results/date"}, Varies(c.Plain))
	require.Equal(t, `run/steps/0/exitCode: "1" unwrapped, "2" wrapped`, c.Explain("run/steps/0/exitCode"))
	require.Equal(t, `run/results/date: "\"10:00\"" or "\"10:02\"" unwrapped, "\"10:01\"" wrapped`, c.Explain("run/results/date"))
	require.Equal(t, `run/other: missing unwrapped, missing wrapped`, c.Explain("run/other"))

	require.Empty(t, Comparison{[]Outcome{plain}, plain}.Differs())
	delete(wrapped, "run/reason")
	require.Contains(t, Comparison{[]Outcome{plain}, wrapped}.Differs(), "run/reason", "what is missing differs")
}

func TestATimeoutIsOneThatOnlyTheWrappedRunHas(t *testing.T) {
	done, late := Outcome{"reason": "Succeeded"}, Outcome{"reason": "TaskRunTimeout"}
	for name, test := range map[string]struct {
		plain, wrapped Outcome
		want           bool
	}{
		"nowhere":        {done, done, false},
		"wrapped":        {done, late, true},
		"unwrapped only": {late, done, false},
		"both":           {late, late, false},
	} {
		require.Equal(t, test.want, Comparison{[]Outcome{test.plain}, test.wrapped}.TimedOut("reason"), name)
	}
}

func TestALongValueIsShortened(t *testing.T) {
	c := Comparison{[]Outcome{{"a": strings.Repeat("x", 3000)}}, Outcome{}}
	require.Equal(t, `a: "`+strings.Repeat("x", 100)+`... (3000 bytes)" unwrapped, missing wrapped`, c.Explain("a"))
}

func terminated(name string, message int) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Message: strings.Repeat("x", message)},
	}}
}

func TestAMessageOfExactlyItsShareWasCut(t *testing.T) {
	p := &corev1.Pod{}
	p.Name = "some-pod"
	p.Spec.InitContainers = make([]corev1.Container, 2)
	p.Spec.Containers = make([]corev1.Container, 2)
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{terminated("prepare", 3072)}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{terminated("step-a", 3071), terminated("step-b", 3072)}
	require.Equal(t, []string{"some-pod/prepare", "some-pod/step-b"}, CutMessages(p))
}

func TestTheReportCountsEveryExampleOnce(t *testing.T) {
	equal := Difference{}
	report := Report{Version: "v1.0.0", Images: []string{"ubuntu"}, Findings: []Finding{
		{Example: "taskruns/a", Verdict: "Succeeded", Varies: []string{"a/results/date"}, Ways: map[Way]Difference{Copied: equal, Tee: equal, Mounted: equal}},
		{Example: "taskruns/b", Verdict: "Succeeded", Ways: map[Way]Difference{Copied: equal, Tee: {Fields: []string{"b/exitCode: 1, not 2"}}, Mounted: equal}},
		{Example: "taskruns/d", Verdict: "Succeeded", Ways: map[Way]Difference{
			Copied: {[]string{"d/results/r: 1, not 2"}, SharedMessages}, Tee: {[]string{"d/results/r: 1, not 2"}, SharedMessages}, Mounted: equal,
		}},
		{Example: "pipelineruns/c", Skipped: &Skipped{ForeignImage, "golang"}},
	}}
	summary := report.Summary()
	require.Contains(t, summary, `| examples | 3 | 1 |
| ran in each way | 3 | 0 |
| **equal** by init container | 2 | 0 |
| **equal** by init container, with logs | 1 | 0 |
| **equal** by image volume | 3 | 0 |
| **different** by init container, explained below | 1 | 0 |
| **different** by init container, with logs, explained below | 1 | 0 |
| **different**, unexplained | 1 | 0 |
`)
	require.Contains(t, summary, "| skipped: needs an image that is not available in the test cluster | 0 | 1 |\n")
	require.NotContains(t, summary, string(Resolver))
	require.Contains(t, report.Headline(), "Of the 3 examples of Tekton v1.0.0 that the test cluster can run, these are equal to the unwrapped run: "+
		"2 by init container; 1 by init container, with logs; 3 by image volume. ")
	details := report.Details()
	require.Contains(t, details, summary)
	require.Contains(t, details, "\n- taskruns/b (init container, with logs): unexplained. b/exitCode: 1, not 2")
	require.Contains(t, details, "| taskruns/a | Succeeded | equal | equal | equal | a/results/date |\n| taskruns/b | Succeeded | equal | different | equal |  |\n")
	require.Contains(t, details, "\n- taskruns/d (init container; init container, with logs): "+string(SharedMessages)+" d/results/r: 1, not 2\n")
	require.Contains(t, details, "| pipelineruns/c | golang |\n")
}

func TestAFindingAgreesWithThePageInTheWaysInWhichItRan(t *testing.T) {
	all := func(d Difference) map[Way]Difference { return map[Way]Difference{Copied: d, Tee: d, Mounted: d} }
	shared := Difference{[]string{"r: 1, not 2"}, SharedMessages}
	kinds := []Finding{
		{Ways: all(Difference{})},
		{Ways: all(shared)},
		{Ways: all(Difference{[]string{"r: 1, not 2"}, ""})},
		{Skipped: &Skipped{ForeignImage, "golang"}},
	}
	for i := range kinds {
		kinds[i].Example, kinds[i].Verdict = "taskruns/a", "Succeeded"
	}
	for i, written := range kinds {
		page := Report{Findings: []Finding{written}}.Details()
		for j, found := range kinds {
			require.Equal(t, i == j, found.agrees(page), "%+v, %+v", written, found)
		}
	}
	page := Report{Findings: []Finding{{Example: "taskruns/a", Ways: map[Way]Difference{Copied: shared, Tee: shared, Mounted: {}}}}}.Details()
	for way, want := range map[Way]Difference{Copied: shared, Tee: shared, Mounted: {}} {
		require.True(t, Finding{Example: "taskruns/a", Ways: map[Way]Difference{way: want}}.agrees(page), "%s alone", way)
	}
	require.False(t, Finding{Example: "taskruns/a", Ways: map[Way]Difference{Mounted: shared}}.agrees(page))
	require.False(t, Finding{Example: "taskruns/other", Ways: all(Difference{})}.agrees(page))
}
