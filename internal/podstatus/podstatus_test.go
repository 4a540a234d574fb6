// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podstatus_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/entrypointer/entrypointer/internal/objects/objectstest"
	"github.com/entrypointer/entrypointer/internal/podstatus"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/jsonschema"
)

var update = flag.Bool("update", false, "write golden files instead of comparing with them")

var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// readerOf reads these pods, and asks supervisors by a function. The API server and kubectl
// exec are those of test/e2e; here, supervisors say what would take long to come about.
func readerOf(t *testing.T, exec func(ctx context.Context, pod, container string, command ...string) ([]byte, error), pods ...corev1.Pod) *podstatus.Reader {
	t.Helper()
	server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/deployments/web") {
			objectstest.Respond(w, map[string]any{"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]string{"app": "web"}}}})
			return
		}
		objectstest.Respond(w, corev1.PodList{Items: pods})
	})
	return &podstatus.Reader{Client: objectstest.Client(t, "tenant", server), Exec: exec}
}

func web(t *testing.T) []target.Target {
	t.Helper()
	named, err := target.Parse("deploy/web", target.All())
	require.NoError(t, err)
	return []target.Target{named}
}

// wrapped is a container that runs under the supervisor.
func wrapped(name string) corev1.Container {
	return corev1.Container{
		Name: name, Command: []string{pod.EntrypointPath}, Args: []string{"--", "serve"},
		VolumeMounts: []corev1.VolumeMount{{Name: pod.VolumeName, MountPath: pod.MountPath, ReadOnly: true}},
	}
}

// runningPod is a pod whose containers all run, under the supervisor unless their names
// begin with "plain".
func runningPod(name string, age time.Duration, containers ...string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))}}
	p.Status.Phase = corev1.PodRunning
	for _, c := range containers {
		one := wrapped(c)
		if strings.HasPrefix(c, "plain") {
			one = corev1.Container{Name: c}
		}
		p.Spec.Containers = append(p.Spec.Containers, one)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c, State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-age))},
		}})
	}
	return p
}

// answers are what supervisors say, by the names of their containers.
var answers = map[string]string{
	"waits":    `{"phase":"Waiting","waitingSince":"2026-11-26T11:59:38Z","waitingFor":[{"container":"db","condition":"ready","seen":"connection refused at :5432"},{"url":"http://:15021/ready","seen":""}]}`,
	"turn":     `{"phase":"Waiting"}`,
	"hooks":    `{"phase":"BeforeStart"}`,
	"paused":   `{"phase":"Paused","paused":"before-start"}`,
	"runs":     `{"phase":"Running","started":"2026-11-26T11:59:00.5Z"}`,
	"stops":    `{"phase":"Stopping","waitingSince":"2026-11-26T11:59:58Z","waitingFor":[{"container":"web","condition":"exited","seen":"it is running"}]}`,
	"finishes": `{"phase":"Finished","finished":"2026-11-26T11:59:50Z","reason":"Exited","exitCode":0,"message":"10 bytes aren't stored yet"}`,
	"future":   `{"phase":"Meditating","serenity":1}`,
	"lies":     "\x1b[2J",
	"hostile":  `{"phase":"Running","message":"\u001b[2Jgone\n  next: rm"}`,
}

func says(_ context.Context, _, container string, command ...string) ([]byte, error) {
	if command[0] != "status" {
		return nil, nil
	}
	switch container {
	case "forbidden":
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web-1", errors.New("no"))
	case "fails":
		return nil, errors.New("entrypoint status: no supervisor runs")
	}
	return []byte(answers[container]), nil
}

func TestEachPhaseIsOneLine(t *testing.T) {
	t.Parallel()
	p := runningPod("web-1", time.Minute, "waits", "turn", "hooks", "paused", "runs", "stops", "finishes", "future", "plain", "lies", "hostile", "forbidden", "fails")
	ended := func(name string, code int32, reason, message string) {
		p.Spec.Containers = append(p.Spec.Containers, wrapped(name))
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, RestartCount: 2, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message, FinishedAt: metav1.NewTime(now.Add(-time.Second))},
		}})
	}
	ended("ended", 3, "Error", "the last words\n")
	ended("timed-out", 124, "Error", `{"phase":"Finished","reason":"Timeout","exitCode":124,"signal":"SIGTERM","message":"the timeout of 1h has passed"}`)
	p.Spec.Containers = append(p.Spec.Containers, wrapped("pulled"), wrapped("new"))
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "pulled", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}}})
	p.Spec.InitContainers = []corev1.Container{{Name: "done"}, {Name: "failed"}}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "done", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}},
		{Name: "failed", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}}},
	}
	p.Spec.NodeName, p.Status.PodIP = "node-1", "10.0.0.7"
	runs := &p.Status.ContainerStatuses[4]
	runs.Ready, runs.RestartCount = true, 3
	runs.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error", Message: `{"phase":"Finished","reason":"OOMKilled","exitCode":137,"signal":"SIGKILL"}`, FinishedAt: metav1.NewTime(now.Add(-time.Minute))}
	evicted := runningPod("web-2", time.Hour)
	evicted.Status.Phase, evicted.Status.Reason = corev1.PodFailed, "Evicted"

	answers, err := readerOf(t, says, evicted, p).ReadAll(t.Context(), web(t))
	require.NoError(t, err)
	for golden, wide := range map[string]bool{"testdata/phases.txt": false, "testdata/wide.txt": true} {
		var text strings.Builder
		require.NoError(t, answers.Print(&text, now, wide))
		if *update {
			require.NoError(t, os.MkdirAll("testdata", 0o755))
			require.NoError(t, os.WriteFile(golden, []byte(text.String()), 0o600))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		require.Equal(t, string(want), text.String(), "run the test with -update if the change is meant")
	}
	require.NoError(t, jsonschema.CheckValue("../../docs/cli.schema.json", "status", answers))
	require.False(t, answers.Ended())
}

func TestAStepTellsWhichOneItWaitsFor(t *testing.T) {
	t.Parallel()
	steps := func(ctx context.Context, _, _ string, command ...string) ([]byte, error) {
		return says(ctx, "", "turn", command...)
	}
	p := runningPod("build-pod", 7*time.Second, "step-one", "step-two")
	p.Labels = map[string]string{"tekton.dev/taskRun": "build"}
	answers, err := readerOf(t, steps, p).ReadAll(t.Context(), web(t))
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, answers.Print(&text, now, false))
	require.Equal(t, "pod/build-pod in namespace tenant: Running\n  step-one  waiting for 7s\n              the start of the pod\n  step-two  waiting for 7s\n              the end of step-one\n", text.String())
	require.Equal(t, "step-one", answers.Answers[0].Pods[0].Containers[1].After)
}

// A step has Tekton's results of its own, and those of its author, as its termination message.
func TestTheResultsOfAStepAreShownWithoutTektons(t *testing.T) {
	t.Parallel()
	many := "["
	for at := range 12 {
		many += fmt.Sprintf(`{"key":"r%d","value":"v","type":1},`, at)
	}
	p := runningPod("build-pod", time.Minute, "step-none", "step-some", "step-long", "step-many", "step-words", "plain")
	p.Labels = map[string]string{"tekton.dev/taskRun": "build"}
	const started = `{"key":"StartedAt","value":"2026-11-26T12:00:00.000Z","type":3}`
	for at, message := range []string{
		"[" + started + "]",
		"[" + started + `,{"key":"digest","value":"sha256:1\n","type":1},{"key":"old","value":"\u001b[2Ja\nb","type":"TaskRunResult"}]`,
		`[{"key":"k","value":"` + strings.Repeat("x", 300) + `","type":4}]`,
		many + started + "]",
		"no results",
		"[" + started + "]",
	} {
		p.Status.ContainerStatuses[at].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", Message: message, FinishedAt: metav1.NewTime(now.Add(-41 * time.Second))}}
	}
	p.Status.ContainerStatuses[0].RestartCount = 1
	answers, err := readerOf(t, says, p).ReadAll(t.Context(), web(t))
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, answers.Print(&text, now, false))
	const ended = "  ended with 0 (Completed) 41s ago"
	want := "pod/build-pod in namespace tenant: Running\n  step-none " + ended + ", restarted once\n" +
		"  step-some " + ended + "\n                | digest: sha256:1\n                | old: \\x1b[2Ja\\nb\n" +
		"  step-long " + ended + "\n                | k: " + strings.Repeat("x", 197) + "...\n  step-many " + ended + "\n"
	for at := range 10 {
		want += fmt.Sprintf("                | r%d: v\n", at)
	}
	want += "                2 more results\n  step-words" + ended + "\n                | no results\n  plain     " + ended + "\n                | [" + started + "]\n"
	require.Equal(t, want, text.String())
}

// The kubelet takes a second to say so.
func TestAContainerThatHasJustEndedIsReadAgain(t *testing.T) {
	t.Parallel()
	for _, said := range []string{`unable to upgrade connection: container not found ("main")`, "cannot exec in a stopped state", "cannot exec in a stopped container"} {
		p := runningPod("web-1", time.Minute, "main")
		var asked atomic.Int32
		exec := func(context.Context, string, string, ...string) ([]byte, error) {
			if asked.Add(1) > 1 {
				return []byte(answers["finishes"]), nil
			}
			return nil, errors.New(said)
		}
		report, err := readerOf(t, exec, p).Read(t.Context(), web(t)[0])
		require.NoError(t, err)
		require.Empty(t, report.Pods[0].Containers[0].Unanswered)
		require.Equal(t, "Finished", report.Pods[0].Containers[0].Supervisor.Phase)

		asked.Store(0)
		always := func(context.Context, string, string, ...string) ([]byte, error) {
			asked.Add(1)
			return nil, errors.New(said)
		}
		report, err = readerOf(t, always, p).Read(t.Context(), web(t)[0])
		require.NoError(t, err)
		require.Equal(t, "its container has just ended", report.Pods[0].Containers[0].Unanswered)
		require.Equal(t, int32(2), asked.Load(), "once more")
	}
}

func TestPodsComeInTheirOrderAndTheNewestAreShown(t *testing.T) {
	t.Parallel()
	var pods []corev1.Pod
	for at := range 21 {
		pods = append(pods, runningPod(fmt.Sprintf("web-%d", at), time.Duration(at)*time.Minute, "plain"))
	}
	answers, err := readerOf(t, says, pods...).ReadAll(t.Context(), web(t))
	require.NoError(t, err)
	require.Equal(t, "web-20", answers.Answers[0].Pods[0].Name)
	var text strings.Builder
	require.NoError(t, answers.Print(&text, now, false))
	require.True(t, strings.HasPrefix(text.String(), "1 older pods aren't shown; -o json has them.\n\npod/web-19 in"), text.String())
	require.NotContains(t, text.String(), "web-20")
}

func TestARunWithoutPodsIsNotSentToWhy(t *testing.T) {
	t.Parallel()
	for status, says := range map[string]string{
		`{"completionTime":"2026-11-26T12:00:00Z"}`: "taskrun/build in namespace tenant has ended, and its pods are gone. If they have sent their output: kubectl entrypointer logs -n tenant taskrun/build, and timeline.\n",
		`{}`: "taskrun/build in namespace tenant has no pods yet.\n",
	} {
		server := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"status":%s}`, status) })
		named, err := target.Parse("taskrun/build", target.All())
		require.NoError(t, err)
		answers, err := (&podstatus.Reader{Client: objectstest.Client(t, "tenant", server)}).ReadAll(t.Context(), []target.Target{named})
		require.NoError(t, err)
		var text strings.Builder
		require.NoError(t, answers.Print(&text, now, false))
		require.Equal(t, says, text.String())
	}
}

func TestOnlyWhatHasChangedIsPrintedAgain(t *testing.T) {
	t.Parallel()
	read := func(age time.Duration, containers ...string) podstatus.Answers {
		answers, err := readerOf(t, says, runningPod("web-1", age, containers...)).ReadAll(t.Context(), web(t))
		require.NoError(t, err)
		return answers
	}
	require.False(t, read(time.Minute, "plain").Changed(read(time.Hour, "plain"), false), "time passes")
	require.True(t, read(time.Minute, "waits").Changed(read(time.Minute, "runs"), false))
	require.True(t, read(time.Minute).Changed(read(time.Minute, "runs"), false))
	none, err := readerOf(t, says).ReadAll(t.Context(), web(t))
	require.NoError(t, err)
	require.False(t, none.Ended(), "others may follow")
}

// TestASupervisorThatNeverAnswersHoldsNobodyUp has more of them than are asked at once.
func TestASupervisorThatNeverAnswersHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	var busy, most atomic.Int32
	silent := func(ctx context.Context, _, container string, _ ...string) ([]byte, error) {
		for now := busy.Add(1); now > most.Load(); {
			most.Store(now)
		}
		defer busy.Add(-1)
		if container != "runs" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return []byte(answers["runs"]), nil
	}
	var names []string
	for at := range 12 {
		names = append(names, fmt.Sprintf("silent-%d", at))
	}
	report, err := readerOf(t, silent, runningPod("web-1", time.Minute, append(names, "runs")...)).Read(t.Context(), web(t)[0])
	require.NoError(t, err)
	require.LessOrEqual(t, most.Load(), int32(8))
	for _, c := range report.Pods[0].Containers[:12] {
		require.Equal(t, "it doesn't answer within 5s", c.Unanswered)
	}
	require.Equal(t, "Running", report.Pods[0].Containers[12].Supervisor.Phase)
}

func TestOnlyPausedContainersContinue(t *testing.T) {
	t.Parallel()
	var told []string
	exec := func(ctx context.Context, pod, container string, command ...string) ([]byte, error) {
		if command[0] != "status" {
			told = append(told, pod+" "+container+" "+strings.Join(command, " "))
		}
		return says(ctx, pod, container, command...)
	}
	reader := readerOf(t, exec, runningPod("web-1", time.Minute, "runs", "paused", "plain"), runningPod("web-2", time.Hour, "paused", "waits"))
	got, report, err := reader.Tell(t.Context(), web(t)[0], podstatus.Command{Words: []string{"continue"}, Phases: []string{"Paused"}})
	require.NoError(t, err)
	require.Len(t, report.Pods, 2)
	require.Equal(t, []podstatus.Told{{Pod: "web-2", Container: "paused"}, {Pod: "web-1", Container: "paused"}}, got)
	require.Equal(t, []string{"web-2 paused continue", "web-1 paused continue"}, told)

	got, _, err = reader.Tell(t.Context(), web(t)[0], podstatus.Command{Words: []string{"signal", "HUP"}, Container: "runs", Phases: []string{"Running"}})
	require.NoError(t, err)
	require.Equal(t, []podstatus.Told{{Pod: "web-1", Container: "runs"}}, got)
}
