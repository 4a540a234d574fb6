// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package destinations

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/export"
	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/logs/times"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
)

// A span is a span of a trace, as a destination knows it.
type span struct {
	id, parent, name string
	from, to         uint64 // in nanoseconds
}

// treeOfRun is the trace of a PipelineRun of three tasks of two steps each.
const treeOfRun = `RUN ci
  lint
    check
      run
      wait
    clone
      run
      wait
  push
    check
      run
      wait
    clone
      run
      wait
  test
    check
      run
      wait
    clone
      run
      wait
`

// spansOfRun is the number of its spans.
const spansOfRun = 1 + 3*(1+2*3)

// drawn draws spans as a tree, those with the same parent by name, and checks that each lies
// within its parent.
func drawn(t *testing.T, all []span) string {
	t.Helper()
	ids := map[string]span{}
	for _, s := range all {
		require.NotContains(t, ids, s.id, "an id stands for one span")
		ids[s.id] = s
	}
	slices.SortFunc(all, func(a, b span) int { return strings.Compare(a.name, b.name) })
	var text strings.Builder
	var draw func(parent, indent string)
	draw = func(parent, indent string) {
		for _, s := range all {
			if s.parent != parent {
				continue
			}
			if above, is := ids[parent]; is {
				require.LessOrEqual(t, above.from, s.from, "%s in %s", s.name, above.name)
				require.GreaterOrEqual(t, above.to, s.to, "%s in %s", s.name, above.name)
			}
			fmt.Fprintf(&text, "%s%s\n", indent, s.name)
			draw(s.id, indent+"  ")
		}
	}
	draw("", "")
	return text.String()
}

// sendsTraces runs the exporter of spans over a store with the events of a PipelineRun, until
// the test is over, and returns the id of the trace.
func sendsTraces(t *testing.T, to string) (trace string) {
	t.Helper()
	const run = "0af76519-16cd-43dd-8448-eb211c80319c"
	trace = strings.ReplaceAll(run, "-", "")
	bucket, err := storage.OpenFiles(t.TempDir())
	require.NoError(t, err)
	store, err := streams.Open(t.Context(), bucket)
	require.NoError(t, err)
	began := time.Now().Add(-time.Minute).Truncate(time.Second)
	rfc := func(at time.Time) string { return at.UTC().Format(time.RFC3339) }
	const condition = `"conditions":[{"type":"Succeeded","status":"True","reason":"Succeeded"}]`
	var children []string
	objects := map[string]string{}
	for number, task := range []string{"lint", "test", "push"} {
		uid := fmt.Sprintf("5ba76519-16cd-43dd-9448-eb211c80319%d", number)
		taskRun := "nightly-" + task
		start := began.Add(time.Duration(10*number) * time.Second)
		for at, step := range []string{"clone", "check"} {
			parent := fmt.Sprintf("00-%s-%016x-01", trace, 100*number+at+1)
			tells(t, store, taskRun, task, step, parent, fmt.Sprintf("9448eb211c80319%d", number), start.Add(time.Second), at)
		}
		children = append(children, fmt.Sprintf(`{"kind":"TaskRun","name":%q}`, taskRun))
		objects["/apis/tekton.dev/v1/namespaces/team-a/taskruns/"+taskRun] = fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"team-a","uid":%q,"labels":{"tekton.dev/pipelineTask":%q},
			"ownerReferences":[{"apiVersion":"tekton.dev/v1","kind":"PipelineRun","name":"nightly","uid":%q}]},
			"status":{"podName":"%s-pod","steps":[{"container":"step-clone"},{"container":"step-check"}],"startTime":%q,"completionTime":%q,%s}}`,
			taskRun, uid, task, run, taskRun, rfc(start), rfc(start.Add(9*time.Second)), condition)
	}
	objects["/apis/tekton.dev/v1/namespaces/team-a/pipelineruns/nightly"] = fmt.Sprintf(`{"metadata":{"name":"nightly","namespace":"team-a","uid":%q,"labels":{"tekton.dev/pipeline":"ci"}},
		"status":{"startTime":%q,"completionTime":%q,"childReferences":[%s],%s}}`, run, rfc(began), rfc(began.Add(30*time.Second)), strings.Join(children, ","), condition)
	read := func(_ context.Context, path string) ([]byte, error) { return []byte(objects[path]), nil }
	exporter, err := export.NewSpans(store, bucket, export.Options{URL: to, Timeout: 10 * time.Second, Pause: time.Second}, read, slog.New(slog.NewTextHandler(t.Output(), nil)), prometheus.NewRegistry())
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = exporter.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended; require.NoError(t, bucket.Close()) })
	return trace
}

// tells stores the events of a step. All steps of a task begin at once, and each waits for its turn: the
// first one for a second, and the second one for the first one.
func tells(t *testing.T, store *streams.Store, taskRun, task, step, traceparent, above string, began time.Time, number int) {
	t.Helper()
	ids := fmt.Sprintf(`"traceparent":%q,"parentSpanId":%q`, traceparent, above)
	id, err := store.Create(t.Context(), streams.Source{
		Namespace: "team-a", Pod: taskRun + "-pod", PodUID: "uid-" + task, Container: "step-" + step, Start: began.Format(time.RFC3339Nano), Name: "events",
		Labels: map[string]string{"tekton.dev/pipelineRun": "nightly", "tekton.dev/pipelineTask": task, "tekton.dev/taskRun": taskRun, loglabels.TraceParent: traceparent},
	})
	require.NoError(t, err)
	var text strings.Builder
	seconds := [][]int{{0, 1, 1, 4, 4}, {0, 4, 4, 7, 7}}[number]
	for at, event := range []string{`"waiting","file":"/tekton/run/0/out",` + ids, fmt.Sprintf(`"waited","outcome":"met","milliseconds":%d`, 1000*seconds[1]), `"started","pid":7,` + ids, `"exited","exitCode":0`, `"finished","reason":"Exited","exitCode":0`} {
		fmt.Fprintf(&text, `{"time":%q,"event":%s}`+"\n", began.Add(time.Duration(seconds[at])*time.Second).UTC().Format(time.RFC3339Nano), event)
	}
	require.NoError(t, store.Write(t.Context(), id, 0, []byte(text.String()), times.Mark{At: 0, Time: began.UnixMilli()}))
	require.NoError(t, store.End(t.Context(), id, int64(text.Len())))
}
