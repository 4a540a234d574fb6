// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/exec"
	"knative.dev/pkg/apis"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// Each file in examples/options has a TaskRun and a Service, or a Job, of its own
// name.

// optionExample applies a file to a namespace that opted in. The Service keeps
// its pod, for the test to look into, when nobody asks it.
func optionExample(t *testing.T, name string) (namespace string) {
	t.Helper()
	namespace = optedInNamespace(t)
	objects, err := framework.Example(t.Context(), "options/"+name+".yaml")
	require.NoError(t, err)
	require.NoError(t, framework.KeepRunning(objects))
	require.NoError(t, cluster.Create(t.Context(), namespace, objects...))
	return namespace
}

// ranTask is what became of the example's TaskRun.
func ranTask(t *testing.T, namespace, name string) taskRunResult {
	t.Helper()
	run, err := cluster.WaitForTaskRun(t.Context(), namespace, name)
	require.NoError(t, err)
	return describe(t, run)
}

func readyService(t *testing.T, namespace, name string) *servingv1.Service {
	t.Helper()
	service, err := cluster.WaitForService(t.Context(), namespace, name)
	require.NoError(t, err)
	return service
}

// readyPod is the pod of a Service that is ready, and keeps one.
func readyPod(t *testing.T, namespace, name string) *corev1.Pod {
	t.Helper()
	return servingPod(t, readyService(t, namespace, name))
}

// entrypointIn runs a subcommand of the supervisor in a container, whose image
// may have nothing else to run.
func entrypointIn(t *testing.T, p *corev1.Pod, container string, args ...string) string {
	t.Helper()
	return execIn(t, p.Namespace, p.Name, container, append([]string{pod.EntrypointPath}, args...)...)
}

// entrypointEnds runs one that lets the container end, and may then be killed with it.
func entrypointEnds(t *testing.T, p *corev1.Pod, container string, args ...string) {
	t.Helper()
	_, err := cluster.Exec(t.Context(), p.Namespace, p.Name, container, append([]string{pod.EntrypointPath}, args...)...)
	if exit, exited := errors.AsType[exec.CodeExitError](err); !exited || exit.Code != 137 {
		require.NoError(t, err)
	}
}

// ended waits until a container has ended once, and says how.
func ended(t *testing.T, p *corev1.Pod, container string) *corev1.ContainerStateTerminated {
	t.Helper()
	var last *corev1.ContainerStateTerminated
	eventually(t, patience, fmt.Sprintf("container %q of pod %q to end", container, p.Name), func() error {
		got, err := cluster.Kube.CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, s := range got.Status.ContainerStatuses {
			if s.Name == container {
				if last = s.LastTerminationState.Terminated; last == nil {
					last = s.State.Terminated
				}
			}
		}
		if last == nil {
			return fmt.Errorf("not yet: %s", containerStates(got))
		}
		return nil
	})
	return last
}

// reported is the supervisor's status, as in docs/reference.md.
type reported struct {
	Phase, Paused, Reason, Signal       string
	ExitCode, CommandExitCode, OOMKills int
}

func parseStatus(t *testing.T, text string) (s reported) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &s), text)
	return s
}

func TestTheEnvironmentIsWhatTheAnnotationsSay(t *testing.T) {
	t.Parallel()
	namespace := optionExample(t, "environment")
	ran := ranTask(t, namespace, "environment")
	require.Equal(t, "hello, step\n", ran.Steps[0].Log)
	require.Equal(t, "hello, step; unwanted: no; from a file: yes\n", ran.Steps[1].Log)
	said, _ := framework.SplitProcesses(waitForAnswer(t, readyService(t, namespace, "environment")))
	require.Equal(t, "hello, annotations\n", said)
}

func TestCommandsContinueTheTraceOfTheirRun(t *testing.T) {
	t.Parallel()
	namespace := optionExample(t, "trace")
	id := func(uid types.UID) string { return strings.ReplaceAll(string(uid), "-", "") }
	ran := ranTask(t, namespace, "trace")
	require.Equal(t, corev1.ConditionTrue, ran.Succeeded, ran.Message)
	run, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Get(t.Context(), "trace", metav1.GetOptions{})
	require.NoError(t, err)
	said := regexp.MustCompile(`^hook (\S+)\nstep (\S+)\n$`).FindStringSubmatch(ran.Steps[0].Log)
	require.NotNil(t, said, ran.Steps[0].Log)
	require.Regexp(t, "^00-"+id(run.UID)+"-[0-9a-f]{16}-01$", said[2])
	require.Equal(t, said[2], said[1], "the hook and the command are one run")
	require.Equal(t, "step 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n", ran.Steps[1].Log)
	require.Equal(t, "step without a trace\n", ran.Steps[2].Log)

	var p *corev1.Pod
	eventually(t, patience, "the job's pod", func() (err error) {
		p, err = cluster.PodOf(t.Context(), namespace, "job-name=trace")
		return err
	})
	require.Zero(t, ended(t, p, "main").ExitCode)
	job, err := cluster.Kube.BatchV1().Jobs(namespace).Get(t.Context(), "trace", metav1.GetOptions{})
	require.NoError(t, err)
	require.Regexp(t, "^job 00-"+id(job.UID)+"-[0-9a-f]{16}-01\n$", logs(t, namespace, p.Name, "main"))
}

// TestTheTraceOfAPodOfNobodysBeginsWithThePod, whose UID admission doesn't know. A restart is
// another span.
func TestTheTraceOfAPodOfNobodysBeginsWithThePod(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	twice := busybox(t, "twice", "sh", "-c", `echo "$TRACEPARENT ${ENTRYPOINTER_POD_UID-removed}" >>/entrypointer/shared/spans/twice; test "$(wc -l </entrypointer/shared/spans/twice)" = 2 && exec cat /entrypointer/shared/spans/twice`)
	p := askingPod("traced", twice, busybox(t, "other", "sh", "-c", `echo "$TRACEPARENT"`))
	p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	p.Annotations["entrypointer.dev/trace"] = "true"
	p.Annotations["shared-directory.entrypointer.dev/twice"] = "spans"
	createPod(t, namespace, p)
	done := waitUntilDone(t, namespace, "traced")
	require.Equal(t, corev1.PodSucceeded, done.Status.Phase)
	span := "00-" + strings.ReplaceAll(string(done.UID), "-", "") + "-([0-9a-f]{16})-01"
	both := regexp.MustCompile("^" + span + " removed\n" + span + " removed\n$").FindStringSubmatch(logs(t, namespace, "traced", "twice"))
	require.NotNil(t, both)
	other := regexp.MustCompile("^" + span + "\n$").FindStringSubmatch(logs(t, namespace, "traced", "other"))
	require.NotNil(t, other)
	require.Len(t, map[string]bool{both[1]: true, both[2]: true, other[1]: true}, 3, "each run is a span")
}

// TestATraceThatSomebodyBeganIsContinuedWithItsState has a pod with the annotation of Tekton's that
// whoever creates it can write.
func TestATraceThatSomebodyBeganIsContinuedWithItsState(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	const trace, own, tells = "0af7651916cd43dd8448eb211c80319c", "00-00000000000000000000000000000001-0000000000000002-01", `echo "$TRACEPARENT $TRACESTATE"`
	author := busybox(t, "author", "sh", "-c", tells)
	author.Env = []corev1.EnvVar{{Name: "TRACEPARENT", Value: own}, {Name: "TRACESTATE", Value: "own=1"}}
	p := askingPod("traced", busybox(t, "main", "sh", "-c", tells), author)
	p.Annotations["entrypointer.dev/trace"] = "true"
	p.Annotations["before-start.entrypointer.dev/main"] = tells
	p.Annotations["tekton.dev/pipelinerunSpanContext"] = `{"traceparent":"00-` + trace + `-b7ad6b7169203331-01","tracestate":"vendor=1"}`
	createPod(t, namespace, p)
	waitUntilDone(t, namespace, "traced")
	said := regexp.MustCompile("^(00-" + trace + "-([0-9a-f]{16})-01 vendor=1\n)(.*\n)$").FindStringSubmatch(logs(t, namespace, "traced", "main"))
	require.NotNil(t, said)
	require.Equal(t, said[1], said[3], "the hook and the command are one run")
	require.NotEqual(t, "b7ad6b7169203331", said[2], "the run is a span below it")
	require.Equal(t, own+" own=1\n", logs(t, namespace, "traced", "author"))
}

func TestHooksRunBeforeTheCommand(t *testing.T) {
	t.Parallel()
	namespace := optionExample(t, "hooks")
	ran := ranTask(t, namespace, "hooks")
	require.Equal(t, corev1.ConditionTrue, ran.Succeeded, ran.Message)
	require.Equal(t, "prepared by a hook\n", ran.Steps[1].Log)
	p := readyPod(t, namespace, "hooks")
	require.Regexp(t, `^entrypoint \S+ linux/\S+\nhello, world\n`, logs(t, namespace, p.Name, "user-container"))
}

func TestAHookThatFailsFailsTheContainer(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	p := askingPod("hooked", busybox(t, "main", "echo", "started"))
	p.Annotations["entrypointer.dev/before-start"] = "echo looking\nexit 7"
	p.Annotations["entrypointer.dev/termination-message"] = "true"
	createPod(t, namespace, p)
	end := ended(t, waitUntilDone(t, namespace, "hooked"), "main")
	require.Equal(t, int32(7), end.ExitCode)
	require.Equal(t, "HookFailure", parseStatus(t, end.Message).Reason)
	// Its output and ours are two streams, whose order the container runtime doesn't keep.
	require.Equal(t, sorted("looking\nentrypointer: before-start hook 1: running \"/bin/sh\": it exited with 7: the command was not started\n"),
		sorted(logs(t, namespace, "hooked", "main")))
}

func TestABuildThatPrintsFastWaitsForTheLogServiceAndLosesNothing(t *testing.T) {
	t.Parallel()
	service := logService(t)
	namespace := optionExample(t, "logs-outage")
	ran := ranTask(t, namespace, "logs-outage")
	require.Equal(t, corev1.ConditionTrue, ran.Succeeded, ran.Message)
	text := service.stored(reader(t, namespace, "may", true), namespace, "logs-outage-pod", "step-build")["step-build stdout"]
	require.Equal(t, strings.Repeat("compiling one more file\n", 1_000_000), text)
	require.Contains(t, readyPod(t, namespace, "logs-outage").Spec.Containers[0].Args, "-logs-when-full=drop")
}

func TestWhatTakesTooLongIsEnded(t *testing.T) {
	t.Parallel()
	namespace := optionExample(t, "timeout")
	ran := ranTask(t, namespace, "timeout")
	require.Equal(t, corev1.ConditionFalse, ran.Succeeded)
	require.Equal(t, int32(124), ran.Steps[1].ExitCode)
	require.Contains(t, ran.Steps[1].Log, "entrypointer: the command timed out after 1s (entrypointer.dev/timeout); sent SIGTERM, it ")
	require.Contains(t, ran.Message, `"step-hangs" exited because the step exceeded the specified timeout limit`)
	var p *corev1.Pod
	eventually(t, patience, "the job's pod", func() (err error) {
		p, err = cluster.PodOf(t.Context(), namespace, "job-name=timeout")
		return err
	})
	end := ended(t, p, "main")
	require.Equal(t, int32(124), end.ExitCode)
	require.Equal(t, "Timeout", parseStatus(t, end.Message).Reason)
}

func TestAnOptionIsSetForAStepByTheNameThatItsAuthorWrote(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	run := taskRun("own-names", pipelinev1.TaskSpec{
		StepTemplate: &pipelinev1.StepTemplate{Image: image(t, "busybox:1.37")},
		Steps:        []pipelinev1.Step{script("greets", `echo "hello, $WHOM"`), script("hangs", "sleep 3600")},
	})
	run.Annotations = map[string]string{"env.entrypointer.dev/greets": "WHOM=world", "timeout.entrypointer.dev/hangs": "1s"}
	_, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Create(t.Context(), run, metav1.CreateOptions{})
	require.NoError(t, err)
	ran := ranTask(t, namespace, run.Name)
	require.Equal(t, "hello, world\n", ran.Steps[0].Log)
	require.Equal(t, int32(124), ran.Steps[1].ExitCode)
	require.Contains(t, ran.Steps[1].Log, "entrypointer: the command timed out after 1s (entrypointer.dev/timeout)")
	for _, event := range eventsOf(t, namespace, "entrypointer") {
		t.Errorf("event %s: %s", event.Reason, event.Message)
	}
}

// TestATaskRunSaysWhyAnOptionIsRefusedForAStep that it doesn't suit.
func TestATaskRunSaysWhyAnOptionIsRefusedForAStep(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	goesOn := script("goes-on", "sleep 60")
	goesOn.OnError = pipelinev1.Continue
	for option, test := range map[string]struct{ value, why string }{
		"timeout":            {"1s", "the step has onError: continue"},
		"success-exit-codes": {"3", "set onError: continue in the step, or name the last step"},
	} {
		run := taskRun(option, pipelinev1.TaskSpec{
			StepTemplate: &pipelinev1.StepTemplate{Image: image(t, "busybox:1.37")},
			Steps:        []pipelinev1.Step{goesOn, script("last", "true")},
		})
		run.Annotations = map[string]string{option + ".entrypointer.dev/step-goes-on": test.value}
		_, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Create(t.Context(), run, metav1.CreateOptions{})
		require.NoError(t, err)
		eventually(t, patience, "TaskRun "+option+" to say why", func() error {
			got, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Get(t.Context(), option, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if said := got.Status.GetCondition(apis.ConditionSucceeded).GetMessage(); !strings.Contains(said, test.why) {
				return fmt.Errorf("it says %q", said)
			}
			return nil
		})
	}
}

func TestExitCodesCountAsSuccess(t *testing.T) {
	t.Parallel()
	namespace := optionExample(t, "exit-codes")
	ran := ranTask(t, namespace, "exit-codes")
	require.Equal(t, corev1.ConditionTrue, ran.Succeeded, ran.Message)
	require.Zero(t, ran.Steps[0].ExitCode)
	p := readyPod(t, namespace, "exit-codes")
	entrypointEnds(t, p, "user-container", "signal", "KILL")
	end := ended(t, p, "user-container")
	require.Zero(t, end.ExitCode)
	require.Equal(t, "Completed", end.Reason)
}

func TestTheStatusSaysWhatBecameOfACommand(t *testing.T) {
	t.Parallel()
	namespace := optionExample(t, "status")
	ran := ranTask(t, namespace, "status")
	require.Equal(t, corev1.ConditionTrue, ran.Succeeded, ran.Message)
	require.Equal(t, reported{Phase: "Finished", Reason: "Exited"}, parseStatus(t, ran.Steps[1].Log))
	p := readyPod(t, namespace, "status")
	require.Equal(t, reported{Phase: "Running"}, parseStatus(t, entrypointIn(t, p, "user-container", "status")))
	entrypointEnds(t, p, "user-container", "signal", "KILL")
	require.Equal(t, reported{Phase: "Finished", Reason: "Signalled", Signal: "SIGKILL", ExitCode: 137, CommandExitCode: 137},
		parseStatus(t, ended(t, p, "user-container").Message))
}

func TestAPauseIsReleasedFromKubectlExec(t *testing.T) {
	t.Parallel()
	namespace := optionExample(t, "debugging")
	release := func(selector, container, paused string) {
		t.Helper()
		var p *corev1.Pod
		eventually(t, patience, "a pause "+paused, func() (err error) {
			if p, err = cluster.PodOf(t.Context(), namespace, selector); err != nil {
				return err
			}
			said, err := cluster.Exec(t.Context(), namespace, p.Name, container, pod.EntrypointPath, "status")
			if err == nil && parseStatus(t, said).Paused != paused {
				err = fmt.Errorf("the status is %s", said)
			}
			return err
		})
		entrypointEnds(t, p, container, "continue")
	}
	release("tekton.dev/taskRun=debugging", "step-holds", "before-start")
	release("tekton.dev/taskRun=debugging", "step-holds", "after-failure")
	require.Equal(t, int32(5), ranTask(t, namespace, "debugging").Steps[0].ExitCode)

	release("serving.knative.dev/service=debugging", "user-container", "before-start")
	said, _ := framework.SplitProcesses(waitForAnswer(t, readyService(t, namespace, "debugging")))
	require.Equal(t, "hello, world\n", said)
}

func TestModeExecOfAStepAndOfAService(t *testing.T) {
	t.Parallel()
	namespace := optionExample(t, "mode")
	// PID 1 is Tekton's entrypoint, as it is without us.
	require.Equal(t, "entrypoint\n", ranTask(t, namespace, "mode").Steps[0].Log)
	_, processes := framework.SplitProcesses(waitForAnswer(t, readyService(t, namespace, "mode")))
	require.Len(t, processes, 1)
	require.Equal(t, "/ko-app/hello", processes[0].Command)
}

// TestTheStatusNamesAKillForWantOfMemory has a container use more than its
// limit. The command is a child of the shell's, as it would be of a script's.
func TestTheStatusNamesAKillForWantOfMemory(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	for name, command := range map[string][]string{
		"command":   {"tail", "/dev/zero"},
		"its-child": {"sh", "-c", "tail /dev/zero; exit $?"},
	} {
		c := busybox(t, "main", command...)
		c.Resources.Limits = resources("memory", "32Mi")
		p := askingPod(name, c)
		p.Annotations["entrypointer.dev/termination-message"] = "true"
		createPod(t, namespace, p)
		end := ended(t, waitUntilDone(t, namespace, name), "main")
		require.Equal(t, int32(137), end.ExitCode, name)
		status := parseStatus(t, end.Message)
		require.Equal(t, "OOMKilled", status.Reason, end.Message)
		require.Positive(t, status.OOMKills)
	}
}

func TestOptionsOfANamespaceAreThoseOfItsPods(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	_, err := annotateKey(t.Context(), namespace, "entrypointer.dev/env", `"OF=namespace"`)
	require.NoError(t, err)
	args := func(prepare func(*corev1.Pod)) []string {
		t.Helper()
		p := askingPod("some", busybox(t, "main", "true"))
		prepare(p)
		var args []string
		eventually(t, patience, "the namespace's options in a pod", func() error {
			got, err := wouldBecome(t, namespace, p)
			if err != nil {
				return framework.Permanent(err)
			}
			if args = got.Spec.Containers[0].Args; args[0] == "--" {
				return fmt.Errorf("the args are %q", args)
			}
			return nil
		})
		return args
	}
	require.Equal(t, []string{"-env=OF=namespace", "--", "true"}, args(func(*corev1.Pod) {}))
	require.Equal(t, []string{"-env=OF=pod", "--", "true"}, args(func(p *corev1.Pod) { p.Annotations["entrypointer.dev/env"] = "OF=pod" }))

	_, err = annotateKey(t.Context(), namespace, "entrypointer.dev/env", `"nothing"`)
	require.ErrorContains(t, err, `option entrypointer.dev/env: "nothing" is wrong; it can be lines of the form NAME=VALUE`)
}
