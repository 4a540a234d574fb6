// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// taskRunResult is the outcome of a TaskRun, without values that differ from run to run.
type taskRunResult struct {
	Succeeded corev1.ConditionStatus
	Reason    string
	Message   string
	Results   []pipelinev1.TaskRunResult
	Steps     []stepRan
}

type stepRan struct {
	Name, Container, Reason string
	TerminationReason       string
	ExitCode                int32
	Results                 []pipelinev1.TaskRunResult
	Log                     string
}

// runTask runs a TaskRun to its end.
func runTask(t *testing.T, namespace string, run *pipelinev1.TaskRun) (taskRunResult, *corev1.Pod) {
	t.Helper()
	_, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Create(t.Context(), run, metav1.CreateOptions{})
	require.NoError(t, err)
	done, err := cluster.WaitForTaskRun(t.Context(), namespace, run.Name)
	require.NoError(t, err)
	require.NotEmpty(t, done.Status.PodName, "the pod of a TaskRun that says: %v", done.Status.GetCondition(apis.ConditionSucceeded))
	p, err := cluster.Kube.CoreV1().Pods(namespace).Get(t.Context(), done.Status.PodName, metav1.GetOptions{})
	require.NoError(t, err)
	return describe(t, done), p
}

func describe(t *testing.T, run *pipelinev1.TaskRun) taskRunResult {
	t.Helper()
	condition := run.Status.GetCondition(apis.ConditionSucceeded)
	ran := taskRunResult{
		Succeeded: condition.Status,
		Reason:    condition.Reason,
		Message:   strings.ReplaceAll(condition.Message, run.Namespace, "NAMESPACE"),
		// Their order is that in which Tekton's controller has first seen them.
		Results: slices.SortedFunc(slices.Values(run.Status.Results), func(a, b pipelinev1.TaskRunResult) int { return strings.Compare(a.Name, b.Name) }),
	}
	for _, s := range run.Status.Steps {
		require.NotNil(t, s.Terminated, "the end of step %q", s.Name)
		ran.Steps = append(ran.Steps, stepRan{
			Name: s.Name, Container: s.Container, Reason: s.Terminated.Reason,
			TerminationReason: s.TerminationReason,
			ExitCode:          s.Terminated.ExitCode,
			Results:           s.Results,
			Log:               logs(t, run.Namespace, run.Status.PodName, s.Container),
		})
	}
	return ran
}

// taskInBoth runs the same TaskRun in a namespace that opted in and in one that didn't.
func taskInBoth(t *testing.T, run *pipelinev1.TaskRun) (plain, wrapped taskRunResult) {
	t.Helper()
	plain, p := runTask(t, plainNamespace(t), run)
	require.NoError(t, framework.CheckNotWrapped(p))
	wrapped, p = runTask(t, optedInNamespace(t), run)
	requireWrapped(t, p, stepContainers(p)...)
	for i := range plain.Steps {
		plain.Steps[i].Log = sorted(plain.Steps[i].Log)
	}
	for i := range wrapped.Steps {
		wrapped.Steps[i].Log = sorted(wrapped.Steps[i].Log)
	}
	return plain, wrapped
}

func stepContainers(p *corev1.Pod) []string {
	var names []string
	for _, c := range p.Spec.Containers {
		if strings.HasPrefix(c.Name, "step-") {
			names = append(names, c.Name)
		}
	}
	return names
}

func taskRun(name string, spec pipelinev1.TaskSpec) *pipelinev1.TaskRun {
	return &pipelinev1.TaskRun{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       pipelinev1.TaskRunSpec{TaskSpec: &spec},
	}
}

func TestATaskRunDoesWhatItDoesUnwrapped(t *testing.T) {
	t.Parallel()
	box := image(t, "busybox:1.37")
	plain, wrapped := taskInBoth(t, taskRun("ways", pipelinev1.TaskSpec{
		Results:      []pipelinev1.TaskResult{{Name: "word"}, {Name: "lines"}},
		StepTemplate: &pipelinev1.StepTemplate{Image: box, Env: []corev1.EnvVar{{Name: "GREETING", Value: "hello"}}},
		Steps: []pipelinev1.Step{
			{Name: "command", Command: []string{"sh", "-c"}, Args: []string{"echo $0; echo oops >&2; printf %s $0 > $(results.word.path)", "first"}},
			{Name: "script", Script: "#!/bin/sh\nset -e\necho \"$GREETING from $(pwd), $# args: $*\"\nprintf 'a\\nb' > $(results.lines.path)\n", Args: []string{"one", "two three"}, WorkingDir: "/tmp"},
			{Name: "no-shebang", Script: "echo without a shebang, $GREETING\n"},
			{Name: "dollars", Command: []string{"printf", "%s|"}, Args: []string{"$(GREETING)", "$$(GREETING)", "$GREETING", "$$", ""}},
			{Name: "tolerated", OnError: pipelinev1.Continue, Script: "#!/bin/sh\nexit 3\n"},
			{Name: "step-result", Results: []pipelinev1.StepResult{{Name: "count"}}, Script: "#!/bin/sh\nprintf 7 > $(step.results.count.path)\n"},
			{Name: "reads-it", Command: []string{"echo"}, Args: []string{"count is $(steps.step-result.results.count)"}},
			{Name: "image-default"},
			{Name: "image-entrypoint", Image: image(t, "ko://github.com/entrypointer/entrypointer/examples/hello"), Args: []string{"ignored"}},
		},
		// A sidecar ends because Tekton replaces its image: it must not be wrapped.
		Sidecars: []pipelinev1.Sidecar{{Name: "waits", Image: box, Command: []string{"sleep", "3600"}}},
	}))
	require.Equal(t, corev1.ConditionTrue, plain.Succeeded, plain.Message)
	require.Equal(t, int32(3), plain.Steps[4].ExitCode)
	require.Equal(t, "count is 7\n", plain.Steps[6].Log)
	last := len(plain.Steps) - 1
	require.Contains(t, plain.Steps[last].Log, "hello, world\n")
	require.Contains(t, wrapped.Steps[last].Log, "    1 "+pod.EntrypointPath+" -wait-file=/tekton/run/")
	// The only step that tells who runs it.
	plain.Steps[last].Log, wrapped.Steps[last].Log = "", ""
	require.Equal(t, plain, wrapped)
}

func TestAStepThatFailsFailsTheTaskRunWithTheSameCode(t *testing.T) {
	t.Parallel()
	box := image(t, "busybox:1.37")
	plain, wrapped := taskInBoth(t, taskRun("fails", pipelinev1.TaskSpec{
		Steps: []pipelinev1.Step{
			{Name: "works", Image: box, Command: []string{"echo", "works"}},
			{Name: "fails", Image: box, Script: "#!/bin/sh\necho about to fail\nexit 42\n"},
			{Name: "skipped", Image: box, Command: []string{"echo", "never"}},
		},
	}))
	require.Equal(t, corev1.ConditionFalse, plain.Succeeded)
	require.Equal(t, int32(42), plain.Steps[1].ExitCode)
	require.Equal(t, withoutTimes(plain), withoutTimes(wrapped))
}

func TestAStepThatCanNotStartFailsAsUnwrapped(t *testing.T) {
	t.Parallel()
	plain, wrapped := taskInBoth(t, taskRun("typo", pipelinev1.TaskSpec{
		Steps: []pipelinev1.Step{{Name: "typo", Image: image(t, "busybox:1.37"), Command: []string{"/no/such/command"}}},
	}))
	require.Equal(t, corev1.ConditionFalse, plain.Succeeded)
	require.NotZero(t, plain.Steps[0].ExitCode)
	require.Equal(t, withoutTimes(plain), withoutTimes(wrapped))
}

// withoutTimes drops the first word of each line that Tekton's entrypoint logs: when.
func withoutTimes(ran taskRunResult) taskRunResult {
	for i, s := range ran.Steps {
		var lines []string
		for line := range strings.Lines(s.Log) {
			if strings.HasPrefix(line, "20") && len(line) > 20 {
				line = line[20:]
			}
			lines = append(lines, line)
		}
		ran.Steps[i].Log = strings.Join(lines, "")
	}
	return ran
}

func TestATaskRunOptsItsPodOut(t *testing.T) {
	t.Parallel()
	run := taskRun("opts-out", pipelinev1.TaskSpec{
		Steps: []pipelinev1.Step{{Name: "only", Image: image(t, "busybox:1.37"), Command: []string{"readlink", "/proc/1/exe"}}},
	})
	run.Annotations = map[string]string{pod.InjectAnnotation: "false"}
	ran, p := runTask(t, optedInNamespace(t), run)
	require.NoError(t, framework.CheckNotWrapped(p))
	require.Equal(t, "/tekton/bin/entrypoint\n", ran.Steps[0].Log)
}
