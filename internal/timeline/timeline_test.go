// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/internal/timeline"
	"github.com/entrypointer/entrypointer/test/jsonschema"
)

var update = flag.Bool("update", false, "write golden files instead of comparing with them")

// requireGolden compares with a file in testdata.
func requireGolden(t *testing.T, name, got string) {
	t.Helper()
	golden := "testdata/" + name
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "run the test with -update if the change is meant")
}

// threeSteps is a TaskRun of three steps, of which the last one fails, and whose pod has
// pulled an image.
func threeSteps(logs bool) *world {
	flags := []string{}
	if logs {
		flags = append(flags, "-logs=stream")
	}
	p := newPod("build-pod", wrapped("step-fetch", flags...), wrapped("step-test", flags...), wrapped("step-push", flags...))
	p.Labels = map[string]string{"tekton.dev/taskRun": "build"}
	p.Status.Phase = corev1.PodFailed
	message := func(milliseconds int) string {
		return fmt.Sprintf(`[{"key":"digest","value":"x","type":1},{"key":"StartedAt","value":%q,"type":3}]`, at(milliseconds).Format("2006-01-02T15:04:05.000Z07:00"))
	}
	with(&p, ran(4, 8, 0, message(5200)))
	with(&p, ran(4, 12, 0, message(8912)))
	with(&p, ran(4, 13, 1, message(12020)))
	return &world{
		pods: []corev1.Pod{p},
		run:  map[string]any{"status": map[string]any{"podName": "build-pod", "startTime": seconds(-1), "completionTime": seconds(15)}},
		events: []corev1.Event{
			kubeEvent("build-pod", "step-fetch", "Pulling", `Pulling image "registry.example/step-fetch"`, 1),
			kubeEvent("build-pod", "step-fetch", "Pulled", `Successfully pulled image "registry.example/step-fetch" in 1.2s (1.95s including waiting). Image size: 7 bytes.`, 3),
			kubeEvent("build-pod", "step-test", "Pulled", `Container image "registry.example/step-test" already present on machine`, 3),
		},
	}
}

// recordThree adds the events that the log service has of these steps.
func (w *world) recordThree() *world {
	steps := []struct {
		name, file           string
		start, waited, ended int
		code                 string
	}{
		{"step-fetch", "/tekton/downward/ready", 4100, 5190, 8903, "0"},
		{"step-test", "/tekton/run/0/out", 4200, 8900, 12011, "0"},
		{"step-push", "/tekton/run/1/out", 4300, 12009, 13450, "1"},
	}
	for _, s := range steps {
		w.records = append(w.records, recorded{"build-pod", s.name, s.start, []string{
			event(s.start, "waiting", `"file":"`+s.file+`"`),
			event(s.waited, "waited", `"outcome":"met"`), event(s.waited+1, "started", `"argv0":"/tekton/bin/entrypoint"`),
			event(s.ended, "exited", `"exitCode":`+s.code), event(s.ended+40, "finished", `"reason":"Exited"`, `"exitCode":`+s.code),
		}})
	}
	return w
}

// ordered is a pod of a Deployment whose containers wait for each other.
func ordered() *world {
	p := newPod("web-1", wrapped("db"), wrapped("migrate", "-depends-on=ready:/entrypointer/order/db", "-termination-message=/dev/termination-log"),
		wrapped("api", "-depends-on=completed:/entrypointer/order/migrate"), wrapped("web", "-depends-on=ready:/entrypointer/order/api"), corev1.Container{Name: "plain"})
	with(&p, runs(2))
	with(&p, ran(2, 9, 0, fmt.Sprintf(`{"phase":"Finished","started":%q,"finished":%q,"reason":"Exited","exitCode":0,"commandExitCode":0}`, at(5300).Format(time.RFC3339Nano), at(9150).Format(time.RFC3339Nano))))
	with(&p, runs(2))
	with(&p, runs(2))
	with(&p, runs(3))
	return &world{
		pods: []corev1.Pod{p},
		run:  map[string]any{"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]string{"app": "web"}}}},
		says: map[string]string{
			"db":  fmt.Sprintf(`{"phase":"Running","started":%q}`, at(2100).Format(time.RFC3339Nano)),
			"api": fmt.Sprintf(`{"phase":"Running","started":%q}`, at(9162).Format(time.RFC3339Nano)),
			"web": fmt.Sprintf(`{"phase":"Waiting","waitingSince":%q,"waitingFor":[{"container":"api","condition":"ready","seen":"connection refused"}]}`, at(2400).Format(time.RFC3339Nano)),
		},
	}
}

// restarted is a pod whose container fails again and again.
func restarted() *world {
	p := newPod("crashes", wrapped("main", "-logs=tee"), wrapped("hooks", "-before-start=prepare"))
	with(&p, ran(10, 12, 1, ""), corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}})
	with(&p, runs(2))
	return &world{
		pods: []corev1.Pod{p},
		says: map[string]string{"hooks": `{"phase":"BeforeStart"}`},
		// When the first start was, which this is about, isn't known.
		events: []corev1.Event{kubeEvent("crashes", "main", "Pulled", "", 1)},
		records: []recorded{
			{"crashes", "main", 2300, []string{event(2301, "started"), event(4000, "signal", `"signal":"SIGHUP"`), event(4500, "exited", `"exitCode":1`), event(4530, "finished", `"reason":"Exited"`, `"exitCode":1`)}},
			{"crashes", "main", 6300, []string{event(6301, "started"), "[entrypointer: 9 bytes are missing]"}},
			{"crashes", "main", 10300, []string{event(10310, "hookStarted", `"argv0":"prepare"`), event(10800, "hookEnded", `"exitCode":0`), event(10801, "started"), event(11500, "signal", `"signal":"SIGTERM"`), event(12100, "exited", `"exitCode":1`)}},
		},
	}
}

// pipeline is a PipelineRun of which two TaskRuns have completed. The pods have no steps
// that are of interest here.
func pipeline() *world {
	w := &world{run: map[string]any{"status": map[string]any{
		"startTime":    seconds(0),
		"pipelineSpec": map[string]any{"tasks": []any{map[string]any{"name": "build"}, map[string]any{"name": "test", "runAfter": []string{"build"}}}},
	}}}
	for at, task := range []string{"test", "build"} { // the newest pod comes first
		p := newPod("release-"+task+"-pod", corev1.Container{Name: "step-only"})
		p.Labels = map[string]string{"tekton.dev/taskRun": "release-" + task, "tekton.dev/pipelineRun": "release"}
		began := 12 - 11*at
		p.CreationTimestamp = seconds(began)
		p.Status.Conditions[0].LastTransitionTime = seconds(began + 1)
		with(&p, ran(began+2, began+9, 0, ""))
		w.pods = append(w.pods, p)
		w.taskRuns = append(w.taskRuns, map[string]any{
			"metadata": map[string]any{"name": "release-" + task, "labels": map[string]string{"tekton.dev/pipelineTask": task}},
			"status":   map[string]any{"podName": p.Name, "startTime": seconds(began), "completionTime": seconds(began + 10)},
		})
	}
	return w
}

func TestATimelineTellsWhereTheTimeWent(t *testing.T) {
	t.Parallel()
	pending := newPod("pending", wrapped("main"))
	pending.Spec.NodeName = ""
	pending.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}
	pulling := newPod("pulls", wrapped("main"))
	with(&pulling, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}})
	stranger := ordered()
	stranger.isStranger = true
	stranger.pods[0].Spec.Containers[0].Args = []string{"-logs=stream", "--", "serve"}
	hostile := ordered()
	hostile.says["web"] = `{"phase":"Waiting","waitingFor":[{"container":"\u001b[2Japi\n  next: rm","condition":"<script>"}]}`
	hostile.pods[0].Status.ContainerStatuses[1].State.Terminated.Message = `{"phase":"Finished","started":"9999-01-01T00:00:00Z","finished":"0001-02-03T00:00:00Z","reason":"\u202e&","exitCode":0}`
	ended := newPod("report-1", wrapped("extract", "-depends-on=ready:/entrypointer/order/db"), wrapped("load", "-depends-on=completed:/entrypointer/order/extract"), wrapped("db"))
	with(&ended, ran(2, 9, 0, ""))
	with(&ended, ran(2, 12, 0, ""))
	with(&ended, ran(2, 13, 0, ""))
	gone := threeSteps(true).recordThree()
	gone.pods = nil
	for name, story := range map[string]struct {
		world *world
		named string
	}{
		"taskrun":         {threeSteps(false), "taskrun/build"},
		"taskrun-logs":    {threeSteps(true).recordThree(), "taskrun/build"},
		"taskrun-gone":    {gone, "taskrun/build"},
		"order":           {ordered(), "deployment/web"},
		"ended":           {&world{pods: []corev1.Pod{ended}}, "report-1"},
		"restarts":        {restarted(), "crashes"},
		"pending":         {&world{pods: []corev1.Pod{pending}}, "pending"},
		"pulls":           {&world{pods: []corev1.Pod{pulling}, events: []corev1.Event{kubeEvent("pulls", "main", "Pulling", "", 2)}}, "pulls"},
		"without-rights":  {stranger, "web-1"},
		"hostile":         {hostile, "deployment/web"},
		"pipelinerun":     {pipeline(), "pipelinerun/release"},
		"of-no-pods":      {&world{run: ordered().run}, "deployment/web"},
		"of-no-container": {&world{pods: []corev1.Pod{newPod("new")}}, "new"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := story.world.asks(t, story.named)
			require.NoError(t, err)
			var text strings.Builder
			require.NoError(t, got.Print(&text, 120))
			require.NoError(t, jsonschema.CheckValue("../../docs/cli.schema.json", "timeline", got))
			requireGolden(t, name+".txt", text.String())
			requireFits(t, got)
			var drawn bytes.Buffer
			require.NoError(t, got.WriteSVG(&drawn))
			requireWellFormed(t, drawn.Bytes())
		})
	}
}

func TestTheRunOfAStepIsTheSameWithItsPodAndWithoutIt(t *testing.T) {
	t.Parallel()
	runs := func(hasPod bool) (all []time.Duration) {
		w := threeSteps(true).recordThree()
		if !hasPod {
			w.pods = nil
		}
		told, err := w.asks(t, "taskrun/build")
		require.NoError(t, err)
		for _, c := range told.Pods[0].Containers {
			spans := c.Lives[0].Spans
			for at := range spans[1:] {
				require.Equal(t, spans[at].To, spans[at+1].From, "nothing is blank")
			}
			require.Equal(t, timeline.Running, spans[1].Kind)
			require.Equal(t, hasPod, spans[1].For != "", "the message of Tekton's entrypoint is known")
			all = append(all, spans[1].To.Sub(spans[1].From))
		}
		return all
	}
	require.Equal(t, runs(true), runs(false))
}

func TestAllTheTimeOfATaskRunIsTold(t *testing.T) {
	t.Parallel()
	gone := threeSteps(true).recordThree()
	gone.pods = nil
	for name, story := range map[string]struct {
		world    *world
		named    string
		from, to int
	}{
		"by Tekton":              {threeSteps(false), "taskrun/build", -1, 15},
		"by the log service":     {threeSteps(true).recordThree(), "taskrun/build", -1, 15},
		"without its pod":        {gone, "taskrun/build", -1, 15},
		"as one of several runs": {pipeline(), "pipelinerun/release", 1, 11},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told, err := story.world.asks(t, story.named)
			require.NoError(t, err)
			p := told.Pods[0]
			spans := p.Spans
			for _, c := range p.Containers {
				spans = append(spans, c.Spans...)
				for _, l := range c.Lives {
					spans = append(spans, l.Spans...)
				}
			}
			slices.SortFunc(spans, func(a, b timeline.Span) int { return a.From.Compare(b.From) })
			until := at(1000 * story.from)
			for _, s := range spans {
				require.False(t, s.From.After(until), "nothing is told from %v to %v", until, s.From)
				if s.To.After(until) {
					until = s.To
				}
			}
			require.Equal(t, at(1000*story.to), until)
		})
	}
}

func TestAStepThatEndsWhileItIsAskedIsReadAgain(t *testing.T) {
	t.Parallel()
	w := threeSteps(false)
	w.ends = map[string]corev1.ContainerState{"step-push": w.pods[0].Status.ContainerStatuses[2].State}
	w.pods[0].Status.ContainerStatuses[2].State = runs(4)
	told, err := w.asks(t, "taskrun/build")
	require.NoError(t, err)
	require.Empty(t, told.Notes)
	require.Equal(t, timeline.Tekton, told.Pods[0].Containers[2].Lives[0].Source)
}

func TestATimelineIsADocumentADrawingAndATrace(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]*world{"taskrun-logs": threeSteps(true).recordThree(), "restarts": restarted()} {
		named := map[string]string{"taskrun-logs": "taskrun/build", "restarts": "crashes"}[name]
		got, err := w.asks(t, named)
		require.NoError(t, err)
		document, err := json.MarshalIndent(got, "", "  ")
		require.NoError(t, err)
		requireGolden(t, name+".json", string(document)+"\n")
		var drawn, traced bytes.Buffer
		require.NoError(t, got.WriteSVG(&drawn))
		requireGolden(t, name+".svg", drawn.String())
		require.NoError(t, got.WritePerfetto(&traced))
		requireGolden(t, name+".pftrace.txt", decoded(t, traced.Bytes(), "Trace", ""))
	}
}

// A tenant's container writes its status, its events and Kubernetes' Events as it likes.
func TestWitnessesThatLieDoNoHarm(t *testing.T) {
	t.Parallel()
	lying := func(message string) *world {
		p := newPod("lies", wrapped("main"))
		with(&p, ran(2, 6, 0, message))
		return &world{pods: []corev1.Pod{p}}
	}
	long := lying("")
	long.events = []corev1.Event{
		kubeEvent("lies", "main", "Pulled", `Successfully pulled image "x" in 1s (2562047h including waiting)`, 2),
		{InvolvedObject: kubeEvent("lies", "main", "", "", 0).InvolvedObject, Reason: "Pulling"},
	}
	for name, w := range map[string]*world{
		"an end without a start":  lying(`{"phase":"Finished","finished":"2026-11-26T12:00:05Z"}`),
		"times of other ages":     lying(`{"phase":"Finished","started":"0001-01-01T00:00:01Z","finished":"9999-12-31T23:59:59Z"}`),
		"a pull of three ages":    long,
		"a record of long ago":    {records: []recorded{{pod: "gone", container: "main", start: -1 << 52, lines: []string{event(0, "started")}}}},
		"an event of other ages":  {records: []recorded{{pod: "gone", container: "main", lines: []string{`{"time":"1000-01-01T00:00:00Z","event":"started"}`, `{"time":"9999-01-01T00:00:00Z","event":"exited"}`}}}},
		"an event without a name": {records: []recorded{{pod: "gone", container: "main", lines: []string{`{}`, `{"time":"x"}`, `null`, `[]`}}}},
	} {
		of := "lies"
		if len(w.pods) == 0 {
			of = "gone"
		}
		got, err := w.asks(t, of)
		if err != nil {
			continue // of what is gone, nothing may be left
		}
		var drawn, traced, printed bytes.Buffer
		require.NoError(t, got.WriteSVG(&drawn), name)
		require.NoError(t, got.WritePerfetto(&traced), name)
		require.NoError(t, got.Print(&printed, 80), name)
		require.Less(t, drawn.Len(), 64<<10, name)
	}
}

func TestTheTraceOfAPipelineRunHasItsCriticalPath(t *testing.T) {
	t.Parallel()
	got, err := pipeline().asks(t, "pipelinerun/release")
	require.NoError(t, err)
	var traced bytes.Buffer
	require.NoError(t, got.WritePerfetto(&traced))
	text := decoded(t, traced.Bytes(), "Trace", "")
	require.Contains(t, text, `name: "critical path"`)
	require.Contains(t, text, `name: "release-build"`)
}

// requireFits tries widths of terminals: no line may be longer, and a bar has its share.
func requireFits(t *testing.T, told *timeline.Timeline) {
	t.Helper()
	for asked, width := range map[int]int{1: timeline.NarrowestText, 40: 40, 41: 41, 60: 60, 80: 80, 120: 120, 1000: 1000} {
		var text strings.Builder
		require.NoError(t, told.Print(&text, asked))
		for line := range strings.Lines(text.String()) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), width, line)
			if before, bar, is := strings.Cut(line, " |"); is && strings.HasPrefix(line, "  ") {
				bar, _, _ = strings.Cut(bar, "|")
				require.GreaterOrEqual(t, len(before)+len(bar)+len(" |"), width/2, line)
			}
		}
	}
}

func TestANarrowTerminalHasTheWordsBelowTheBars(t *testing.T) {
	t.Parallel()
	for _, width := range []int{40, 80} {
		got, err := threeSteps(true).recordThree().asks(t, "taskrun/build")
		require.NoError(t, err)
		var text strings.Builder
		require.NoError(t, got.Print(&text, width))
		requireGolden(t, fmt.Sprintf("taskrun-logs-%d.txt", width), text.String())
	}
}

// requireWellFormed parses a document of XML.
func requireWellFormed(t *testing.T, document []byte) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(document))
	for {
		if _, err := decoder.Token(); err != nil {
			require.ErrorIs(t, err, io.EOF)
			return
		}
	}
}

func TestOnlyTheNewestPodsAreDrawn(t *testing.T) {
	t.Parallel()
	w := &world{run: ordered().run}
	for n := range 130 {
		p := newPod(fmt.Sprintf("web-%03d", n), wrapped("main"))
		p.CreationTimestamp = seconds(-1000 + n)
		p.Status.Conditions = nil
		w.pods = append(w.pods, p)
	}
	got, err := w.asks(t, "deployment/web")
	require.NoError(t, err)
	require.Len(t, got.Pods, 100)
	require.Contains(t, got.Notes, "30 older pods are left out")
	var text strings.Builder
	require.NoError(t, got.Print(&text, 80))
	require.Contains(t, text.String(), "80 older pods aren't shown; -o json has them.")
	require.NotContains(t, text.String(), "pod/web-109")
	require.Contains(t, text.String(), "pod/web-110")
}

func TestWhatIsNowhereIsAnError(t *testing.T) {
	t.Parallel()
	for says, named := range map[string]string{
		`reading pod/none in namespace "tenant"`:       "none",
		`reading taskrun/none in namespace "tenant"`:   "taskrun/none",
		`reading deployment/none in namespace "tenant`: "deployment/none",
		"ask about one of its Jobs":                    "cronjob/none",
	} {
		_, err := (&world{}).asks(t, named)
		require.ErrorContains(t, err, says)
	}
}

// TestOnlyThePodsThatAreToldAreAsked has many replicas that run.
func TestOnlyThePodsThatAreToldAreAsked(t *testing.T) {
	t.Parallel()
	w := ordered()
	w.pods = nil
	for n := range 150 {
		p := newPod(fmt.Sprintf("web-%03d", n), wrapped("web"))
		p.CreationTimestamp = seconds(n - 150)
		with(&p, runs(2))
		w.pods = append(w.pods, p)
	}
	got, err := w.asks(t, "deployment/web")
	require.NoError(t, err)
	require.Len(t, got.Pods, 100)
	require.Contains(t, got.Notes, "50 older pods are left out")
	require.Equal(t, "web-050", got.Pods[0].Name)
	require.EqualValues(t, 100, w.asked.Load())
}
