// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/timeline"
	"github.com/entrypointer/entrypointer/test/jsonschema"
)

// timelineOf is the answer of kubectl entrypointer timeline.
func (p plugin) timelineOf(t *testing.T, namespace, named string) *timeline.Timeline {
	t.Helper()
	command := p.Command(t.Context(), "timeline", "-n", namespace, named, "-o", "json")
	out, err := command.Output()
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		require.NoError(t, err, string(failed.Stderr))
	}
	require.NoError(t, err)
	require.NoError(t, jsonschema.Check(cliSchema, "timeline", out))
	var told timeline.Timeline
	require.NoError(t, json.Unmarshal(out, &told), string(out))
	return &told
}

// lifeOf is the only life of a container of the only pod, or a life without anything.
func lifeOf(t *testing.T, told *timeline.Timeline, container string) (l timeline.Life) {
	t.Helper()
	require.Len(t, told.Pods, 1)
	for _, c := range told.Pods[0].Containers {
		if c.Name == container && len(c.Lives) == 1 {
			l = c.Lives[0]
		}
	}
	return l
}

// spanOf is the only span of a kind.
func spanOf(t *testing.T, l timeline.Life, kind timeline.Kind) timeline.Span {
	t.Helper()
	spans := slices.DeleteFunc(slices.Clone(l.Spans), func(s timeline.Span) bool { return s.Kind != kind })
	require.Len(t, spans, 1, "%s: %+v", kind, l.Spans)
	return spans[0]
}

// twoSteps is a TaskRun whose second step waits for six seconds, and runs for two.
func twoSteps(t *testing.T) *pipelinev1.TaskRun {
	t.Helper()
	step := func(name, seconds string) pipelinev1.Step {
		return pipelinev1.Step{Name: name, Image: image(t, "busybox:1.37"), Command: []string{"sleep", seconds}}
	}
	return taskRun("build", pipelinev1.TaskSpec{Steps: []pipelinev1.Step{step("first", "6"), step("second", "2")}})
}

// requireTwoSteps checks what a timeline says of twoSteps. The tolerance is that of the ends
// of spans.
func requireTwoSteps(t *testing.T, told *timeline.Timeline, source timeline.Source, tolerance time.Duration) {
	t.Helper()
	second := lifeOf(t, told, "step-second")
	require.Equal(t, source, second.Source)
	waited, ran := spanOf(t, second, timeline.Waiting), spanOf(t, second, timeline.Running)
	require.Equal(t, "step-first", waited.For)
	require.GreaterOrEqual(t, waited.To.Sub(waited.From), 6*time.Second-tolerance, "the first step sleeps meanwhile")
	require.GreaterOrEqual(t, ran.To.Sub(ran.From), 2*time.Second-tolerance)
	require.Less(t, ran.To.Sub(ran.From), waited.To.Sub(waited.From))
	require.Len(t, told.HandOffs, 1)
	require.Equal(t, []string{"step-first", "step-second"}, []string{told.HandOffs[0].From, told.HandOffs[0].To})
}

func TestATimelineTellsWaitedFromRan(t *testing.T) {
	t.Parallel()
	kubectl, namespace := newPlugin(t), optedInNamespace(t)
	_, p := runTask(t, namespace, twoSteps(t))
	requireWrapped(t, p, stepContainers(p)...)

	told := kubectl.timelineOf(t, namespace, "taskrun/build")
	requireTwoSteps(t, told, timeline.Tekton, time.Second)
	require.Equal(t, "1s", told.HandOffs[0].Precision)
	require.Less(t, told.HandOffs[0].Milliseconds, int64(2000))

	for format, shows := range map[string]string{"text": "step-first -> step-second  up to ", "svg": "</svg>", "perfetto": "pod/" + p.Name, "yaml": "kind: waiting"} {
		args := []string{"timeline", "-n", namespace, "taskrun/build"}
		if format != "text" {
			args = append(args, "-o", format)
		}
		out, err := kubectl.Command(t.Context(), args...).Output()
		require.NoError(t, err)
		require.Contains(t, string(out), shows)
	}
}

func TestATimelineOfTheLogServiceIsExactAndOutlivesThePods(t *testing.T) {
	t.Parallel()
	require.NoError(t, cluster.WaitForDeployment(t.Context(), endpoint.Namespace, "logs"))
	kubectl := newPlugin(t)
	namespace, _ := logsNamespace(t, "stream")
	_, p := runTask(t, namespace, twoSteps(t))
	requireWrapped(t, p, stepContainers(p)...)
	var told *timeline.Timeline
	complete := func() error {
		told = kubectl.timelineOf(t, namespace, "taskrun/build")
		if l := lifeOf(t, told, "step-second"); l.Source != timeline.Logs || l.ExitCode == nil {
			return fmt.Errorf("its times are those of %q", l.Source)
		}
		return nil
	}
	for _, gone := range []bool{false, true} {
		if gone {
			require.NoError(t, cluster.Tekton.TektonV1().TaskRuns(namespace).Delete(t.Context(), "build", metav1.DeleteOptions{}))
			waitUntilPodIsGone(t, namespace, p.Name)
		}
		eventually(t, 30*time.Second, "the events", complete)
		require.Equal(t, gone, told.Pods[0].Gone)
		requireTwoSteps(t, told, timeline.Logs, 0)
		require.Empty(t, told.HandOffs[0].Precision)
		require.Less(t, told.HandOffs[0].Milliseconds, int64(2000))
	}
}

func TestATimelineOfContainersThatWaitGoesOn(t *testing.T) {
	t.Parallel()
	kubectl, namespace := newPlugin(t), optedInNamespace(t)
	p := askingPod("ordered", busybox(t, "db", forever...), busybox(t, "web", forever...))
	p.Annotations["depends-on.entrypointer.dev/web"] = "db:ready"
	p.Annotations["ready-when.entrypointer.dev/db"] = "file:///tmp/never"
	createPod(t, namespace, p)
	waitUntilRunning(t, namespace, "ordered")
	eventually(t, time.Minute, "web to wait", func() error {
		told := kubectl.timelineOf(t, namespace, "ordered")
		web := lifeOf(t, told, "web")
		if len(web.Spans) != 1 || web.Spans[0].Kind != timeline.Waiting || !web.Spans[0].To.IsZero() {
			return fmt.Errorf("it has %+v", web.Spans)
		}
		require.Contains(t, web.Spans[0].For, "db:ready")
		require.Equal(t, timeline.Supervisor, web.Source)
		return nil
	})

	// Who may read pods, and nothing else, gets the kubelet's word.
	command := kubectl.Command(t.Context(), "timeline", "-n", namespace, "ordered")
	command.Env = append(command.Env, "KUBECONFIG="+withToken(t, reader(t, namespace, "views", true)))
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "note: a supervisor doesn't tell: you may not (kubectl auth can-i create pods/exec).")
	require.Contains(t, string(out), "? waited or ran")

	webDeployment(t, namespace, nil)
	_, err = cluster.Kube.AppsV1().Deployments(namespace).Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	eventually(t, time.Minute, "the pods to go", func() error {
		out, err := kubectl.Command(t.Context(), "timeline", "-n", namespace, "deploy/web").Output()
		if failed, is := errors.AsType[*exec.ExitError](err); !is || failed.ExitCode() != isNotSo {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

func TestTheCriticalPathOfAPipelineRunLeavesOutWhatNobodyWaitedFor(t *testing.T) {
	t.Parallel()
	kubectl, namespace := newPlugin(t), optedInNamespace(t)
	task := func(name, seconds string, after ...string) pipelinev1.PipelineTask {
		return pipelinev1.PipelineTask{Name: name, RunAfter: after, TaskSpec: &pipelinev1.EmbeddedTask{TaskSpec: pipelinev1.TaskSpec{
			Steps: []pipelinev1.Step{{Name: "only", Image: image(t, "busybox:1.37"), Command: []string{"sleep", seconds}}},
		}}}
	}
	_, err := cluster.Tekton.TektonV1().PipelineRuns(namespace).Create(t.Context(), &pipelinev1.PipelineRun{
		ObjectMeta: metav1.ObjectMeta{Name: "release"},
		Spec: pipelinev1.PipelineRunSpec{PipelineSpec: &pipelinev1.PipelineSpec{
			Tasks:   []pipelinev1.PipelineTask{task("lint", "0"), task("build", "10"), task("test", "1", "lint", "build")},
			Finally: []pipelinev1.PipelineTask{task("report", "0")},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = cluster.WaitForPipelineRun(t.Context(), namespace, "release")
	require.NoError(t, err)
	told := kubectl.timelineOf(t, namespace, "pipelinerun/release")
	require.Len(t, told.Pods, 4)
	var tasks []string
	for _, s := range told.CriticalPath {
		tasks = append(tasks, s.Task)
		require.False(t, s.To.Before(s.From))
	}
	require.Equal(t, []string{"build", "test", "report"}, tasks)
	require.GreaterOrEqual(t, told.CriticalPath[0].To.Sub(told.CriticalPath[0].From), 10*time.Second)
}
