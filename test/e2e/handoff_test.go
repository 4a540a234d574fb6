// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
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

	"github.com/entrypointer/entrypointer/pkg/pod"
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
	const runs = 10 // in each of the namespaces
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

func TestArtifactsGoFromStepToStep(t *testing.T) {
	t.Parallel()
	spec := inOneDirectory(t, "/shared")
	spec.Steps = []pipelinev1.Step{
		script("builds", `printf '{"outputs":[{"name":"image","values":[{"uri":"pkg:oci/built","digest":{"sha256":"%064d"}}]}]}' 7 > $(step.artifacts.path)`),
		script("signs", `case '$(steps.builds.outputs.image)' in *pkg:oci/built*) touch /shared/signed;; esac`),
		script("checks", "test -e /shared/signed"),
	}
	got := requireSame(t, taskRun("artifacts", spec))
	require.Equal(t, corev1.ConditionTrue, got.Succeeded, "%+v", got)
	require.Len(t, got.Steps[0].Outputs, 1)
}

// Tekton's entrypoint copies the credentials of the service account to HOME when
// it starts, before it waits: started late, it would undo what the steps before
// have done there, if HOME is theirs as well.
func TestWhatAStepDoesToASharedHomeIsNotUndone(t *testing.T) {
	t.Parallel()
	both := newPair(t)
	spec := inOneDirectory(t, "/shared/home")
	spec.StepTemplate.Env = []corev1.EnvVar{{Name: "HOME", Value: "/shared/home"}}
	spec.Steps = []pipelinev1.Step{
		script("configures", `echo works; until test -e ~/go; do sleep 0.2; done; grep -q helper ~/.gitconfig; echo "[user] email = ci@example.com" >> ~/.gitconfig`),
		script("commits", "grep -q ci@example.com ~/.gitconfig"),
	}
	run, hooked := taskRun("home", spec), taskRun("home-hooked", spec)
	// A hook has its turn all the same.
	hooked.Annotations = map[string]string{"before-start.entrypointer.dev/step-commits": "grep -q ci@example.com /shared/home/.gitconfig"}
	for _, namespace := range []string{both.plain, both.optedIn} {
		_, err := cluster.Kube.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "git", Annotations: map[string]string{"tekton.dev/git-0": "https://git.example.com"}},
			Type:       corev1.SecretTypeBasicAuth,
			StringData: map[string]string{corev1.BasicAuthUsernameKey: "ci", corev1.BasicAuthPasswordKey: "secret"},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = cluster.Kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Name: "git"}, Secrets: []corev1.ObjectReference{{Name: "git"}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	for _, run := range []*pipelinev1.TaskRun{run, hooked} {
		run.Spec.ServiceAccountName = "git"
		both.start(t, run)
		require.Contains(t, flagsBeforeCommand(steps(podOfTaskRun(t, both.optedIn, run.Name))[1]), "-wait-unless-shared=HOME")
	}
	for _, run := range []*pipelinev1.TaskRun{run, hooked} {
		for _, namespace := range []string{both.plain, both.optedIn} {
			waitUntilStepsWait(t, namespace, run.Name)
		}
	}
	time.Sleep(time.Second) // for the last that runs to have copied the credentials
	for _, run := range []*pipelinev1.TaskRun{run, hooked} {
		for _, namespace := range []string{both.plain, both.optedIn} {
			execIn(t, namespace, podOfTaskRun(t, namespace, run.Name).Name, "step-configures", "touch", "/shared/home/go")
		}
	}
	for _, run := range []*pipelinev1.TaskRun{run, hooked} {
		plain, wrapped := both.end(t, run.Name)
		require.Equal(t, plain, wrapped)
		require.Equal(t, corev1.ConditionTrue, wrapped.Succeeded, "%+v", wrapped)
	}
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

// Tekton starts the command of a hermetic step where there is no network but
// the loopback interface, which is down.
func TestHermeticStepsAreHandedOverAndHaveNoNetwork(t *testing.T) {
	t.Parallel()
	spec := inOneDirectory(t, "/shared")
	const isolated = `test "$(ls /sys/class/net)" != "" && ! grep -v -e lo: -e "|" /proc/net/dev`
	spec.Steps = []pipelinev1.Step{script("first", isolated+"; touch /shared/first"), script("second", isolated+"; test -e /shared/first")}
	run := taskRun("hermetic", spec)
	run.Annotations = map[string]string{"experimental.tekton.dev/execution-mode": "hermetic"}
	got := requireSame(t, run)
	require.Equal(t, corev1.ConditionTrue, got.Succeeded, "%+v", got)
}

const handOff = "entrypointer.dev/hand-off"

func TestTurnedOffTektonWaitsAsEver(t *testing.T) {
	t.Parallel()
	both := newPair(t)
	off := newNamespace(t, map[string]string{pod.InjectAnnotation: "true", handOff: "false"}).Name
	plain := stepsOfNew(t, both.plain, chain(t, "off", 2))
	requireTektonsWaiting(t, stepsOfNew(t, off, chain(t, "off", 2)), plain)
	run := chain(t, "off", 2)
	run.Annotations = map[string]string{handOff: "false"}
	requireTektonsWaiting(t, stepsOfNew(t, both.optedIn, run), plain)
	for _, namespace := range []string{off, both.optedIn} {
		require.Equal(t, corev1.ConditionTrue, outcomeIn(t, namespace, "off").Succeeded)
	}
}

func TestTurnedOffByTheOperatorTektonWaitsAsEver(t *testing.T) {
	both := newPair(t)
	plain := stepsOfNew(t, both.plain, chain(t, "off", 2))
	configureForNow(t, "defaults", "hand-off: \"false\"\n")
	tries := 0
	eventually(t, time.Minute, "the injector to leave the waiting to Tekton", func() error {
		tries++
		wrapped := stepsOfNew(t, both.optedIn, chain(t, fmt.Sprint("off-", tries), 2))
		if flags := flagsBeforeCommand(wrapped[1]); len(flags) > 0 {
			return fmt.Errorf("it has the supervisor wait: %q", flags)
		}
		requireTektonsWaiting(t, wrapped, plain)
		return nil
	})
	require.Equal(t, corev1.ConditionTrue, outcomeIn(t, both.optedIn, fmt.Sprint("off-", tries)).Succeeded)
}

// stepsOfNew creates a TaskRun, and returns the steps of its pod.
func stepsOfNew(t *testing.T, namespace string, run *pipelinev1.TaskRun) []corev1.Container {
	t.Helper()
	_, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Create(t.Context(), run, metav1.CreateOptions{})
	require.NoError(t, err)
	return steps(podOfTaskRun(t, namespace, run.Name))
}

// requireTektonsWaiting wants wrapped steps to be, to the byte, the plain ones
// behind "entrypoint --".
func requireTektonsWaiting(t *testing.T, wrapped, plain []corev1.Container) {
	t.Helper()
	require.Len(t, wrapped, len(plain))
	for i, c := range wrapped {
		require.Equal(t, []string{pod.EntrypointPath}, c.Command)
		require.Equal(t, slices.Concat([]string{"--"}, plain[i].Command, plain[i].Args), c.Args)
	}
}
