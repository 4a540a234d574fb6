// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	tracecollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
	"github.com/entrypointer/entrypointer/pkg/traceids"
)

// A traceBench is a bench whose spans are sent to a destination. The API server has objects by
// their paths.
type traceBench struct {
	*bench
	now     time.Time
	mu      sync.Mutex
	answer  int // the code of responses, 0 for 200
	taken   []*tracepb.ResourceSpans
	objects map[string]string
	failure error // of the API server
	reads   int
}

func newTraceBench(t *testing.T) *traceBench {
	t.Helper()
	b := &traceBench{bench: newBench(t), now: time.Now().Truncate(time.Second), objects: map[string]string{}}
	b.to.Close()
	b.to.Server = httptest.NewServer(b)
	t.Cleanup(b.to.Close)
	return b
}

func (b *traceBench) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	unpacked, err := gzip.NewReader(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	body, _ := io.ReadAll(unpacked)
	var request tracecollector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answer != 0 {
		w.WriteHeader(b.answer)
		return
	}
	b.taken = append(b.taken, request.ResourceSpans...)
}

func (b *traceBench) read(_ context.Context, path string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads++
	if b.failure != nil {
		return nil, b.failure
	}
	if object, is := b.objects[path]; is {
		return []byte(object), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, path)
}

// has sets an object of the API server.
func (b *traceBench) has(path, object string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objects[path] = strings.ReplaceAll(object, "'", `"`)
}

func (b *traceBench) will(answer int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = answer
}

// replica returns an exporter of spans that doesn't run.
func (b *traceBench) replica() *Exporter {
	b.t.Helper()
	e, err := NewSpans(b.store, b.bucket, Options{URL: b.to.URL + "/v1/traces", Timeout: 5 * time.Second, Pause: time.Millisecond}, b.read, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.NoError(b.t, err)
	b.t.Cleanup(e.client.http.CloseIdleConnections)
	e.now, e.claims.now = func() time.Time { return b.now }, func() time.Time { return b.now }
	e.gate.now = e.now
	return e
}

// names returns the names of the spans that were taken, with their parents'.
func (b *traceBench) names() (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := map[string]string{}
	for _, of := range b.taken {
		for _, s := range of.ScopeSpans[0].Spans {
			known[fmt.Sprintf("%x", s.SpanId)] = s.Name
		}
	}
	for _, of := range b.taken {
		for _, s := range of.ScopeSpans[0].Spans {
			name := s.Name
			if len(s.ParentSpanId) > 0 {
				name += " in " + known[fmt.Sprintf("%x", s.ParentSpanId)]
			}
			list = append(list, name)
		}
	}
	return list
}

const (
	pipelineRunUID, taskRunUID = "0af76519-16cd-43dd-8448-eb211c80319c", "5ba76519-16cd-43dd-9448-eb211c80319d"
	ownTrace                   = "0af7651916cd43dd8448eb211c80319c"
	tektonsTrace               = "ffff651916cd43dd8448eb211c80319c"
	taskRunPath                = "/apis/tekton.dev/v1/namespaces/tenant/taskruns/nightly-test"
	pipelineRunPath            = "/apis/tekton.dev/v1/namespaces/tenant/pipelineruns/nightly"
	podPath                    = "/api/v1/namespaces/tenant/pods/nightly-test-pod"
)

// events returns the source of the events of a step of a TaskRun.
func events(container string) streams.Source {
	of := streams.Source{Namespace: "tenant", Pod: "nightly-test-pod", PodUID: "uid", Container: container, Start: "2026-11-28T10:00:00.1Z", Name: "events"}
	of.Labels = map[string]string{"tekton.dev/taskRun": "nightly-test", "tekton.dev/pipelineRun": "nightly", "tekton.dev/pipelineTask": "test", loglabels.TraceParent: "00-" + ownTrace + "-9448eb211c80319d-01"}
	return of
}

// tells writes events of a container, "EVENT FIELDS" each, one a second before now, and returns
// the ID of the stream and its length.
func (b *traceBench) tells(of streams.Source, trace string, from int64, texts ...string) (id string, to int64) {
	b.t.Helper()
	span := fmt.Sprintf("%016x", 0x1000+len(of.Container)+int(of.Container[len(of.Container)-1]))
	var all strings.Builder
	for at, text := range texts {
		kind, fields, has := strings.Cut(text, " ")
		if has {
			fields = "," + fields
		}
		fmt.Fprintf(&all, `{"time":%q,"event":%q,"traceparent":"00-%s-%s-01","parentSpanId":"9448eb211c80319d"%s}`+"\n",
			b.now.Add(time.Duration(at-len(texts))*time.Second).UTC().Format(time.RFC3339Nano), kind, trace, span, fields)
	}
	id = b.writes(of, from, all.String())
	return id, from + int64(all.Len())
}

// ran writes the events of a container that has run and ended, and returns the ID of the stream.
func (b *traceBench) ran(container, trace string) (id string) {
	b.t.Helper()
	id, to := b.tells(events(container), trace, 0, "started", `finished "exitCode":0`)
	b.ends(id, to)
	return id
}

// completed returns the JSON of a run.
func completed(name, uid, rest string) string {
	return `{'metadata':{'name':'` + name + `','namespace':'tenant','uid':'` + uid + `','labels':{'tekton.dev/pipelineTask':'test','tekton.dev/pipeline':'ci'}` + rest + `,
		'startTime':'2026-11-28T10:00:00Z','completionTime':'2026-11-28T10:00:09Z','conditions':[{'type':'Succeeded','status':'True','reason':'Succeeded'}]}}`
}

var (
	completedTaskRun     = completed("nightly-test", taskRunUID, `,'ownerReferences':[{'apiVersion':'tekton.dev/v1','kind':'PipelineRun','name':'nightly','uid':'`+pipelineRunUID+`'}]},'status':{'podName':'nightly-test-pod','steps':[{'container':'step-a'},{'container':'step-b'}]`)
	completedPipelineRun = completed("nightly", pipelineRunUID, `},'status':{'childReferences':[{'kind':'CustomRun','name':'approve'},{'kind':'TaskRun','name':'nightly-test'},{'kind':'TaskRun','name':'nightly-push'}]`)
)

func TestTheSpansOfAPipelineRunFormATree(t *testing.T) {
	t.Parallel()
	b := newTraceBench(t)
	b.has(taskRunPath, `{'metadata':{'namespace':'tenant','name':'nightly-test','uid':'`+taskRunUID+`'},'status':{'startTime':'2026-11-28T10:00:00Z'}}`)
	b.has(pipelineRunPath, `{'metadata':{'namespace':'tenant','name':'nightly','uid':'`+pipelineRunUID+`'}}`)
	e := b.replica()
	var ids []string
	for _, container := range []string{"step-a", "step-b"} {
		id, to := b.tells(events(container), ownTrace, 0, "waiting", `waited "outcome":"met"`, "started", `exited "exitCode":0`, `finished "reason":"Exited","exitCode":0`)
		b.ends(id, to)
		ids = append(ids, id)
		turnOf(e, id, "nightly-test-pod")
	}
	steps := []string{"wait in a", "run in a", "a in ", "wait in b", "run in b", "b in "}
	require.Equal(t, steps, b.names(), "the spans of runs come at their end")
	require.Len(t, e.queue.all(), 2)
	later := func() {
		b.now = b.now.Add(time.Minute)
		for _, id := range ids {
			if e.queue.jobs[id] != nil {
				turnOf(e, id, "nightly-test-pod")
			}
		}
	}
	later()
	require.Len(t, b.names(), 6)
	b.has(taskRunPath, completedTaskRun)
	later()
	require.Equal(t, "test in ", b.names()[6])
	require.Len(t, b.names(), 7, "the first step has it sent")
	require.Len(t, e.queue.all(), 1)
	later()
	b.has(pipelineRunPath, completedPipelineRun)
	later()
	require.Equal(t, []string{"wait in a", "run in a", "a in test", "wait in b", "run in b", "b in test", "test in RUN ci", "RUN ci"}, b.names())
	require.Empty(t, e.queue.all())
	last := b.taken[len(b.taken)-1]
	require.Equal(t, map[string]any{"service.name": "ci", "k8s.namespace.name": "tenant", "cicd.pipeline.run.id": "nightly"}, attributes(last.Resource.Attributes))
	span := last.ScopeSpans[0].Spans[0]
	require.Equal(t, tracepb.Span_SPAN_KIND_SERVER, span.Kind)
	require.Equal(t, map[string]any{"cicd.pipeline.action.name": "RUN", "cicd.pipeline.name": "ci", "cicd.pipeline.result": "success"}, attributes(span.Attributes))
	require.Equal(t, 10*time.Second, time.Duration(span.EndTimeUnixNano-span.StartTimeUnixNano))
	require.Equal(t, map[string]any{
		"service.name": "test", "k8s.namespace.name": "tenant", "k8s.pod.name": "nightly-test-pod", "k8s.pod.uid": "uid", "k8s.container.name": "step-a", "k8s.container.restart_count": int64(0),
		"cicd.pipeline.run.id": "nightly",
	}, attributes(b.taken[0].Resource.Attributes))
	for _, id := range ids {
		turnOf(b.replica(), id, "nightly-test-pod")
	}
	require.Len(t, b.names(), 8, "another replica knows that all was sent")
}

func TestTektonsOwnSpansAreNotMadeAgain(t *testing.T) {
	t.Parallel()
	b := newTraceBench(t)
	b.has(taskRunPath, completedTaskRun)
	b.has(pipelineRunPath, completedPipelineRun)
	id := b.ran("step-a", tektonsTrace)
	e := b.replica()
	turnOf(e, id, "nightly-test-pod")
	require.Equal(t, []string{"run in a", "a in "}, b.names())
	require.Empty(t, e.queue.all())
}

func TestWithoutRightsThereAreTheSpansOfContainers(t *testing.T) {
	t.Parallel()
	b := newTraceBench(t)
	b.failure = apierrors.NewForbidden(schema.GroupResource{}, "", nil)
	id := b.ran("step-a", ownTrace)
	e := b.replica()
	turnOf(e, id, "nightly-test-pod")
	require.Equal(t, []string{"run in a", "a in "}, b.names())
	require.Empty(t, e.queue.all())
	id = b.ran("step-b", ownTrace)
	turnOf(e, id, "nightly-test-pod")
	require.Len(t, b.names(), 4)
	require.Equal(t, 1, b.reads, "the API server isn't asked again and again")
	id, _ = b.tells(events("step-c"), ownTrace, 0, "started")
	b.now = b.now.Add(quietTime)
	for range 2 {
		turnOf(e, id, "nightly-test-pod")
		require.Len(t, b.names(), 4, "whether the container is gone isn't known")
		require.Equal(t, 2, b.reads, "it is another resource")
	}
	b.now = b.now.Add(refusedTime + time.Second)
	turnOf(e, id, "nightly-test-pod")
	require.Equal(t, 3, b.reads, "the right may be there by now")
}

func TestARunThatCantBeReadIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		object  string
		failure error
		waits   bool
	}{
		"it isn't one":                  {`[]`, nil, false},
		"it is too large":               {"", fmt.Errorf("%w: it has too many bytes", ErrUnreadable), false},
		"it is nothing":                 {`null`, nil, false},
		"the API server doesn't answer": {"", io.ErrUnexpectedEOF, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTraceBench(t)
			b.failure = c.failure
			b.has(taskRunPath, c.object)
			id := b.ran("step-a", ownTrace)
			e := b.replica()
			turnOf(e, id, "nightly-test-pod")
			require.Equal(t, []string{"run in a", "a in "}, b.names())
			require.Equal(t, 1, b.reads)
			require.Equal(t, c.waits, len(e.queue.all()) == 1)
		})
	}
}

func TestSpansAreSentAsTheyEndAndNoneTwice(t *testing.T) {
	t.Parallel()
	b := newTraceBench(t)
	first, second := b.replica(), b.replica()
	id, to := b.tells(events("step-a"), ownTrace, 0, "waiting", `waited "outcome":"met"`, "started")
	turnOf(first, id, "nightly-test-pod")
	turnOf(first, id, "nightly-test-pod")
	require.Equal(t, []string{"wait in "}, b.names())
	require.Equal(t, to, first.queue.all()[0].offset, "nothing lags")
	_, to = b.tells(events("step-a"), ownTrace, to, `exited "exitCode":0`)
	turnOf(second, id, "nightly-test-pod")
	require.Len(t, b.names(), 1, "another replica has it")
	first.end(t.Context())
	turnOf(second, id, "nightly-test-pod")
	require.Equal(t, []string{"wait in ", "run in "}, b.names())
	_, to = b.tells(events("step-a"), ownTrace, to, `finished "exitCode":0`)
	b.ends(id, to)
	turnOf(second, id, "nightly-test-pod")
	require.Equal(t, []string{"wait in a", "run in a", "a in "}, b.names())
	require.Equal(t, 3, int(testutil.ToFloat64(first.metrics.records)+testutil.ToFloat64(second.metrics.records)))
}

func TestADestinationThatFailsLosesNoSpan(t *testing.T) {
	t.Parallel()
	b := newTraceBench(t)
	b.will(http.StatusServiceUnavailable)
	id := b.ran("step-a", ownTrace)
	e := b.replica()
	turnOf(e, id, "nightly-test-pod")
	require.Empty(t, b.names())
	require.Zero(t, e.queue.all()[0].offset)
	b.will(0)
	b.now = b.now.Add(time.Minute)
	turnOf(e, id, "nightly-test-pod")
	require.Equal(t, []string{"run in a", "a in "}, b.names())
}

func TestASpanThatIsRefusedIsLeftOut(t *testing.T) {
	t.Parallel()
	b := newTraceBench(t)
	b.will(http.StatusBadRequest)
	id := b.ran("step-a", ownTrace)
	e := b.replica()
	turnOf(e, id, "nightly-test-pod")
	require.Empty(t, e.queue.all())
	require.Equal(t, 2, int(testutil.ToFloat64(e.metrics.refused)))
}

func TestWhatIsntTracedCostsNoClaim(t *testing.T) {
	t.Parallel()
	b := newTraceBench(t)
	e := b.replica()
	lines := source("pod")
	e.Wrote(b.writes(lines, 0, "one\n"), lines, 4)
	require.Empty(t, e.queue.all(), "output doesn't matter")
	inTheLabel, nowhere := events("step-a"), events("step-b")
	delete(nowhere.Labels, loglabels.TraceParent)
	for _, of := range []streams.Source{inTheLabel, nowhere} {
		id, to := b.tells(of, "no trace", 0, "started", `finished "exitCode":0`)
		turnOf(e, id, "nightly-test-pod")
		b.ends(id, to)
		turnOf(e, id, "nightly-test-pod")
		require.Empty(t, e.queue.all())
	}
	require.NoError(t, b.bucket.Walk(t.Context(), "traces", "", func(o storage.Object) bool { t.Errorf("there is %s", o.Name); return true }))
}

// gets counts the objects that are read, and the looks for some.
type gets struct {
	storage.Bucket
	reads, lists int
}

func (g *gets) Read(ctx context.Context, key string) ([]byte, error) {
	g.reads++
	return g.Bucket.Read(ctx, key)
}

func (g *gets) Walk(ctx context.Context, directory, after string, each func(storage.Object) bool) error {
	g.lists++
	return g.Bucket.Walk(ctx, directory, after, each)
}

func (g *gets) Each(ctx context.Context, directory string, each func(storage.Object) bool) error {
	g.lists++
	return g.Bucket.Each(ctx, directory, each)
}

func TestALookAtWhatIsntTracedCostsOneGet(t *testing.T) {
	t.Parallel()
	b := newTraceBench(t)
	of := events("step-a")
	delete(of.Labels, loglabels.TraceParent)
	id, _ := b.tells(of, ownTrace, 0, "started", `exited "exitCode":0`)
	counted := &gets{Bucket: b.bucket}
	store, err := streams.Open(t.Context(), counted)
	require.NoError(t, err)
	b.store, *counted = store, gets{Bucket: b.bucket}
	turnOf(b.replica(), id, "nightly-test-pod")
	require.Equal(t, []int{1, 0}, []int{counted.reads, counted.lists})
	require.Empty(t, b.names())
}

func TestAScanLooksForEventsOfLateAndForWhatWasBegun(t *testing.T) {
	t.Parallel()
	b := newTraceBench(t)
	begun, _ := b.tells(events("step-a"), ownTrace, 0, "waiting", `waited "outcome":"met"`)
	silent, length := b.tells(events("step-c"), ownTrace, 0, "started")
	first := b.replica()
	turnOf(first, begun, "nightly-test-pod")
	turnOf(first, silent, "nightly-test-pod")
	fresh, _ := b.tells(events("step-b"), ownTrace, 0, "waiting")
	e := b.replica()
	require.NoError(t, (&scan{Exporter: e}).run(t.Context()))
	require.Len(t, e.queue.all(), 3)
	b.now = b.now.Add(3 * time.Hour)
	e = b.replica()
	require.NoError(t, (&scan{Exporter: e}).run(t.Context()))
	require.Len(t, e.queue.all(), 2, "those that a replica has begun, which has crashed")
	require.NotContains(t, e.queue.jobs, fresh)
	// The container of the one that has told of nothing that is complete ends at last.
	_, to := b.tells(events("step-c"), ownTrace, length, `finished "exitCode":0`)
	b.ends(silent, to)
	e = b.replica()
	turnOf(e, silent, "nightly-test-pod")
	b.now = b.now.Add(claimTime)
	turnOf(e, silent, "nightly-test-pod")
	require.Equal(t, []string{"wait in ", "run in c", "c in "}, b.names())
}

func TestAContainerThatIsGoneWithoutAWordIsCutOff(t *testing.T) {
	t.Parallel()
	const (
		running   = `{'name':'step-a','state':{'running':{'startedAt':'2026-11-28T%s'}}`
		restarted = `{'name':'step-a','restartCount':1,'state':{'running':{'startedAt':'2026-11-28T%s'}}`
	)
	for name, c := range map[string]struct {
		pod  string
		want string // of the container's span, "" while it runs
	}{
		"the pod is gone":                             {"", "CutOff"},
		"there is another pod":                        {`{'metadata':{'uid':'other'}}`, "CutOff"},
		"it runs":                                     {`{'metadata':{'uid':'uid'},'status':{'containerStatuses':[` + fmt.Sprintf(running, "10:00:00Z") + `}]}}`, ""},
		"it was started again":                        {`{'metadata':{'uid':'uid'},'status':{'containerStatuses':[` + fmt.Sprintf(restarted, "11:00:00Z") + `}]}}`, "CutOff"},
		"the kubelet knows its end":                   {`{'metadata':{'uid':'uid'},'status':{'containerStatuses':[` + fmt.Sprintf(restarted, "11:00:00Z") + `,'lastState':{'terminated':{'startedAt':'2026-11-28T10:00:00Z','finishedAt':'2026-11-28T10:30:00Z','exitCode':137,'reason':'OOMKilled'}}}]}}`, "OOMKilled"},
		"the pod has failed as such":                  {`{'metadata':{'uid':'uid'},'status':{'initContainerStatuses':[{'name':'step-a','state':{'terminated':{'startedAt':'2026-11-28T10:00:00Z','finishedAt':'2026-11-28T10:30:00Z','exitCode':255,'reason':'Error'}}}]}}`, "Error"},
		"the runtime was slow to note its start":      {`{'metadata':{'uid':'uid'},'status':{'containerStatuses':[` + fmt.Sprintf(running, "10:00:30Z") + `}]}}`, ""},
		"the runtime was slow to note a later start":  {`{'metadata':{'uid':'uid'},'status':{'containerStatuses':[` + fmt.Sprintf(restarted, "10:00:30Z") + `,'lastState':{'terminated':{'startedAt':'2026-11-28T09:00:00Z','finishedAt':'2026-11-28T09:30:00Z','exitCode':1,'reason':'Error'}}}]}}`, ""},
		"the runtime was slow to note the only start": {`{'metadata':{'uid':'uid'},'status':{'containerStatuses':[{'name':'step-a','state':{'terminated':{'startedAt':'2026-11-28T10:00:30Z','finishedAt':'2026-11-28T10:30:00Z','exitCode':255,'reason':'Error'}}}]}}`, "Error"},
		"the kubelet has lost it":                     {`{'metadata':{'uid':'uid'},'status':{'containerStatuses':[{'name':'step-a','state':{'terminated':{'startedAt':null,'finishedAt':null,'exitCode':137,'reason':'ContainerStatusUnknown'}}}]}}`, "CutOff"},
		"a later start has ended":                     {`{'metadata':{'uid':'uid'},'status':{'containerStatuses':[{'name':'step-a','restartCount':2,'state':{'terminated':{'startedAt':'2026-11-28T11:00:00Z','finishedAt':'2026-11-28T11:30:00Z','exitCode':1,'reason':'Error'}}}]}}`, "CutOff"},
		"nobody knows":                                {`{'metadata':{'uid':'uid'}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTraceBench(t)
			b.now = time.Date(2026, 11, 28, 10, 0, 2, 0, time.UTC)
			if c.pod != "" {
				b.has(podPath, c.pod)
			}
			e := b.replica()
			id, _ := b.tells(events("step-a"), ownTrace, 0, "waiting", "started")
			turnOf(e, id, "nightly-test-pod")
			require.Zero(t, b.reads, "it isn't looked at before it was quiet")
			b.now = b.now.Add(2 * time.Hour)
			turnOf(e, id, "nightly-test-pod")
			if c.want == "" {
				require.Equal(t, []string{"wait in "}, b.names())
				return
			}
			require.Equal(t, []string{"wait in a", "run in a", "a in "}, b.names())
			all := b.taken[len(b.taken)-1].ScopeSpans[0].Spans
			own := all[len(all)-1]
			require.Equal(t, c.want, own.Status.Message)
			end := time.Unix(0, int64(own.EndTimeUnixNano)).UTC().Format(time.TimeOnly)
			if strings.HasPrefix(c.want, "CutOff") {
				require.Equal(t, "10:00:01", end)
			} else {
				require.Equal(t, "10:30:00", end)
			}
			require.Empty(t, e.queue.all())
		})
	}
}

func TestAStartThatHasToldItsEndNeedsNoEndOfTheStream(t *testing.T) {
	t.Parallel()
	b := newTraceBench(t)
	b.has(taskRunPath, completedTaskRun)
	b.has(pipelineRunPath, completedPipelineRun)
	e := b.replica()
	id, to := b.tells(events("step-a"), ownTrace, 0, "started", `finished "exitCode":0`)
	turnOf(e, id, "nightly-test-pod")
	want := []string{"run in a", "a in test", "test in RUN ci", "RUN ci"}
	require.Equal(t, want, b.names())
	require.Empty(t, e.queue.all())
	require.Equal(t, 2, b.reads, "the pod isn't asked for")
	b.ends(id, to)
	e.Wrote(id, events("step-a"), to)
	turnOf(e, id, "nightly-test-pod")
	require.Equal(t, want, b.names())
	require.Empty(t, e.queue.all())
}

func TestJobsThatWaitForTheirRunsLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	b := newTraceBench(t)
	b.has(taskRunPath, strings.Replace(completedTaskRun, "completionTime", "later", 1))
	e := b.replica()
	e.queue.going = 1
	var ids []string
	for _, container := range []string{"step-b", "step-a"} {
		id := b.ran(container, ownTrace)
		ids = append(ids, id)
		turnOf(e, id, "nightly-test-pod")
	}
	require.Len(t, e.queue.all(), 1)
	require.Contains(t, e.queue.jobs, ids[0])
	require.Equal(t, []string{"run in b", "b in ", "run in a", "a in "}, b.names(), "the spans of containers don't wait")
	b.has(taskRunPath, completedTaskRun)
	b.has(pipelineRunPath, completedPipelineRun)
	b.now = b.now.Add(time.Minute)
	turnOf(e, ids[0], "nightly-test-pod")
	require.Empty(t, e.queue.all())
	require.Empty(t, e.queue.goOn)
	require.Len(t, b.names(), 4)
	require.NoError(t, (&scan{Exporter: e, all: true}).run(t.Context()))
	require.Len(t, e.queue.all(), 1, "the one that had no room")
	turnOf(e, ids[1], "nightly-test-pod")
	require.Equal(t, []string{"run in b", "b in test", "run in a", "a in test", "test in RUN ci", "RUN ci"}, b.names())
	require.Empty(t, e.queue.all())
}

func TestEventsThatAreDroppedOrTooLongAreLeftOut(t *testing.T) {
	t.Parallel()
	b := newTraceBench(t)
	id, to := b.tells(events("step-a"), ownTrace, 0, "waiting")
	require.NoError(t, b.store.Drop(t.Context(), id, streams.Range{From: to, To: to + 10}))
	cut := `cut"}` + "\n" + strings.Repeat("x", maxEvent) + "\n"
	b.writes(events("step-a"), to+10, cut)
	_, to = b.tells(events("step-a"), ownTrace, to+10+int64(len(cut)), "started", `finished "exitCode":0`)
	b.ends(id, to)
	turnOf(b.replica(), id, "nightly-test-pod")
	require.Equal(t, []string{"wait in a", "run in a", "a in "}, b.names())
}

func TestAContainerThatTellsWithoutEndIsReadToABound(t *testing.T) {
	t.Parallel()
	b := newTraceBench(t)
	id, to := b.tells(events("step-a"), ownTrace, 0, "started")
	text := strings.Repeat(strings.Repeat("x", 1023)+"\n", maxTurnBytes/1024+1024)
	b.writes(events("step-a"), to, text)
	e := b.replica()
	for range 2 {
		turnOf(e, id, "nightly-test-pod")
		require.Equal(t, []string{"run in a", "a in "}, b.names())
		require.Empty(t, e.queue.all())
		to += int64(len(text))
		b.writes(events("step-a"), to, "more\n")
		e.Wrote(id, events("step-a"), to+5)
	}
}

func TestNamesOfClientsReachNoOtherPathOfTheAPIServer(t *testing.T) {
	t.Parallel()
	b := newTraceBench(t)
	of := events("step-a")
	s := b.replica().signal.(*spanSignal)
	ofRuns := func() error {
		o := outcome{job: &job{}, ended: &ended{trace: traceids.TraceID{0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd, 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c}, since: b.now}}
		b.now = b.now.Add(2 * knownTime)
		s.runsOf(t.Context(), &o, of, &batch{})
		return o.err
	}
	bad := []string{"../secrets/x", "../../victim/pipelineruns/nightly", "a?watch=true", "a#b", "%2e%2e", "a/b"}
	for _, name := range bad {
		of.Labels["tekton.dev/taskRun"] = name
		require.ErrorIs(t, ofRuns(), io.EOF, name)
	}
	require.Zero(t, b.reads)
	of.Labels["tekton.dev/taskRun"] = "nightly-test"
	for _, name := range bad {
		b.reads = 0
		b.has(taskRunPath, strings.Replace(completedTaskRun, "'name':'nightly',", "'name':'"+name+"',", 1))
		require.ErrorIs(t, ofRuns(), io.EOF, name)
		require.Equal(t, 1, b.reads, "the TaskRun is read, and its owner isn't: %s", name)
	}
}

func TestAnAnswerThatIsAnotherRunHasNoSpan(t *testing.T) {
	t.Parallel()
	for _, other := range []string{
		strings.Replace(completedTaskRun, "'namespace':'tenant'", "'namespace':'victim'", 1),
		strings.Replace(completedTaskRun, "'name':'nightly-test'", "'name':'other'", 1),
	} {
		b := newTraceBench(t)
		b.has(taskRunPath, other)
		id := b.ran("step-a", ownTrace)
		e := b.replica()
		turnOf(e, id, "nightly-test-pod")
		require.Equal(t, []string{"run in a", "a in "}, b.names())
		require.Empty(t, e.queue.all())
	}
}
