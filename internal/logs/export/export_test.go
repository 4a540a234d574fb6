// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	logscollector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/storage/storagetest"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/logs/times"
)

// A destination is a server that takes logs as it is told to.
type destination struct {
	*httptest.Server
	mu      sync.Mutex
	answer  func(w http.ResponseWriter, r *http.Request, taken []*logspb.ResourceLogs) (takes bool)
	taken   []*logspb.ResourceLogs
	headers http.Header
	calls   int
}

func (d *destination) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	unpacked, err := gzip.NewReader(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body, _ := io.ReadAll(unpacked)
	var request logscollector.ExportLogsServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	d.headers = r.Header
	if d.answer == nil || d.answer(w, r, request.ResourceLogs) {
		d.taken = append(d.taken, request.ResourceLogs...)
	}
}

// lines returns the records that a pod's streams have, "NAME: BODY" for each gap.
func (d *destination) lines(pod string) (list []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, of := range d.taken {
		if attributes(of.Resource.Attributes)["k8s.pod.name"] != pod {
			continue
		}
		for _, r := range of.ScopeLogs[0].LogRecords {
			list = append(list, r.Body.GetStringValue())
		}
	}
	return list
}

func (d *destination) called() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

func (d *destination) will(answer func(w http.ResponseWriter, r *http.Request, taken []*logspb.ResourceLogs) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer = answer
}

// A bench is a store whose logs are sent to a destination.
type bench struct {
	t      *testing.T
	bucket storage.Bucket
	store  *streams.Store
	to     *destination
}

func newBench(t *testing.T) *bench {
	t.Helper()
	bucket := storagetest.OpenFiles(t, t.TempDir())
	store, err := streams.Open(t.Context(), bucket)
	require.NoError(t, err)
	to := &destination{}
	to.Server = httptest.NewServer(to)
	t.Cleanup(to.Close)
	return &bench{t, bucket, store, to}
}

// replica returns an exporter that doesn't run.
func (b *bench) replica(change ...func(*Options)) *Exporter {
	b.t.Helper()
	o := Options{URL: b.to.URL + "/v1/logs", Timeout: 5 * time.Second, Pause: time.Millisecond}
	for _, c := range change {
		c(&o)
	}
	e, err := New(b.store, b.bucket, o, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.NoError(b.t, err)
	b.t.Cleanup(e.client.http.CloseIdleConnections)
	return e
}

// run runs a replica until the test is over or stop is called.
func (b *bench) run(e *Exporter) (stop func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = e.Run(ctx) }()
	stop = func() { cancel(); <-ended }
	b.t.Cleanup(stop)
	return stop
}

func source(pod string) streams.Source {
	return streams.Source{Namespace: "tenant", Pod: pod, PodUID: "uid-" + pod, Container: "main", Start: "1", Name: "stdout"}
}

// writes stores output of a pod, and returns the ID of its stream.
func (b *bench) writes(of streams.Source, from int64, text string) (id string) {
	b.t.Helper()
	id, err := b.store.Create(b.t.Context(), of)
	require.NoError(b.t, err)
	for at := 0; at < len(text); at += streams.MaxWrite {
		part := []byte(text[at:min(len(text), at+streams.MaxWrite)])
		require.NoError(b.t, b.store.Write(b.t.Context(), id, from+int64(at), part, times.Mark{At: from + int64(at), Time: time.Now().UnixMilli()}))
	}
	return id
}

func (b *bench) ends(id string, total int64) {
	b.t.Helper()
	require.NoError(b.t, b.store.End(b.t.Context(), id, total))
}

// turnOf lets one stream have a turn at a replica, as a worker does.
func turnOf(e *Exporter, id, pod string) {
	e.queue.offer(id, "tenant", pod, time.Now())
	e.queue.mu.Lock()
	j := e.queue.jobs[id]
	j.due = time.Now()
	e.queue.mu.Unlock()
	for {
		got, _ := e.queue.tryNext()
		if got == nil {
			return
		}
		e.round(context.Background(), got, true)
		if got == j {
			return
		}
	}
}

func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, 10*time.Second, 10*time.Millisecond, what)
}

func TestLinesAreSentInOrderWithWhatIsKnownOfTheirContainer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	headers := filepath.Join(t.TempDir(), "headers")
	require.NoError(t, os.WriteFile(headers, []byte("Authorization: Bearer secret\n\nX-Scope-OrgID: us\n"), 0o600))
	of := source("pod")
	of.Labels = map[string]string{"tekton.dev/pipelineRun": "run", "tekton.dev/pipelineTask": "test", "tekton.dev/taskRun": "run-test", "entrypointer.dev/traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	id := b.writes(of, 0, "one\ntwo\n\xff\nlast")
	b.ends(id, 14)
	e := b.replica(func(o *Options) { o.Headers = headers })
	turnOf(e, id, "pod")
	require.Equal(t, []string{"one", "two", "\uFFFD", "last"}, b.to.lines("pod"))
	require.Equal(t, "Bearer secret", b.to.headers.Get("Authorization"))
	require.Equal(t, "us", b.to.headers.Get("X-Scope-Orgid"))
	of1 := b.to.taken[0]
	require.Equal(t, map[string]any{
		"service.name": "test", "k8s.namespace.name": "tenant", "k8s.pod.name": "pod", "k8s.pod.uid": "uid-pod", "k8s.container.name": "main", "k8s.container.restart_count": int64(0),
		"cicd.pipeline.run.id": "run", "cicd.pipeline.task.name": "test", "cicd.pipeline.task.run.id": "run-test",
	}, attributes(of1.Resource.Attributes))
	first := of1.ScopeLogs[0].LogRecords[1]
	require.Equal(t, map[string]any{"log.iostream": "stdout", "log.record.uid": id + "-4"}, attributes(first.Attributes))
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", fmt.Sprintf("%x", first.TraceId))
	require.Equal(t, "b7ad6b7169203331", fmt.Sprintf("%x", first.SpanId))
	require.WithinDuration(t, time.Now(), time.Unix(0, int64(first.TimeUnixNano)), time.Minute)
	require.Empty(t, e.queue.all(), "it is over")
	turnOf(b.replica(), id, "pod")
	require.Len(t, b.to.lines("pod"), 4, "another replica knows that all was sent")
}

func TestGapsAreRecords(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.writes(source("pod"), 0, "one\ntw")
	require.NoError(t, b.store.Drop(t.Context(), id, streams.Range{From: 6, To: 16}))
	b.writes(source("pod"), 16, "end\n")
	b.ends(id, 20)
	e := b.replica()
	turnOf(e, id, "pod")
	require.Equal(t, []string{"one", "tw", "[10 bytes were dropped]", "end"}, b.to.lines("pod"))
	require.Equal(t, map[string]float64{"dropped": 1, "deleted": 0, "missing": 0, "refused": 0}, gapsOf(e))
	records := b.to.taken[0].ScopeLogs[0].LogRecords
	require.Equal(t, true, attributes(records[1].Attributes)["entrypointer.partial"])
	require.Equal(t, map[string]any{
		"log.iostream": "stdout", "log.record.uid": id + "-6", "entrypointer.gap": "dropped", "entrypointer.offset": int64(6), "entrypointer.length": int64(10),
	}, attributes(records[2].Attributes))
	_, err := b.store.Trim(t.Context(), id, time.Now(), 0)
	require.NoError(t, err)
	other := b.writes(source("other"), 0, "gone\n")
	b.ends(other, 5)
	_, err = b.store.Trim(t.Context(), other, time.Now(), 0)
	require.NoError(t, err)
	turnOf(e, other, "other")
	require.Equal(t, []string{"[5 bytes were deleted]"}, b.to.lines("other"))
	require.Equal(t, map[string]float64{"dropped": 1, "deleted": 1, "missing": 0, "refused": 0}, gapsOf(e))
}

// gapsOf returns how many gaps an exporter has sent for each reason.
func gapsOf(e *Exporter) map[string]float64 {
	all := map[string]float64{}
	for _, reason := range []string{gapDropped, gapDeleted, gapMissing, gapRefused} {
		all[reason] = testutil.ToFloat64(e.metrics.gaps.WithLabelValues(reason))
	}
	return all
}

func TestALongLineIsSentInPartsWithoutSplittingCharacters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	line := "x" + strings.Repeat("ä", maxLine)
	id := b.writes(source("pod"), 0, line+"\n")
	b.ends(id, int64(len(line))+1)
	turnOf(b.replica(), id, "pod")
	lines := b.to.lines("pod")
	require.Equal(t, line, strings.Join(lines, ""))
	require.Len(t, lines, 3)
}

func TestTheEndOfALineIsWaitedForButNotForLong(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	e := b.replica()
	now := time.Now()
	e.now = func() time.Time { return now }
	id := b.writes(source("pod"), 0, "one\ntw")
	turnOf(e, id, "pod")
	require.Equal(t, []string{"one"}, b.to.lines("pod"))
	now = now.Add(partialWait + time.Second)
	turnOf(e, id, "pod")
	require.Equal(t, []string{"one", "tw"}, b.to.lines("pod"))
	b.writes(source("pod"), 6, "o\n")
	turnOf(e, id, "pod")
	require.Equal(t, []string{"one", "tw", "o"}, b.to.lines("pod"))
}

func TestOneReplicaSendsAStreamAndAnotherGoesOnAfterIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.writes(source("pod"), 0, "one\n")
	first, second := b.replica(), b.replica()
	turnOf(first, id, "pod")
	turnOf(second, id, "pod")
	require.Equal(t, []string{"one"}, b.to.lines("pod"))
	b.writes(source("pod"), 4, "two\n")
	first.end(t.Context())
	turnOf(second, id, "pod")
	require.Equal(t, []string{"one", "two"}, b.to.lines("pod"))
	b.writes(source("pod"), 8, "three\n")
	turnOf(first, id, "pod")
	require.Len(t, b.to.lines("pod"), 2, "the first one knows that it holds the stream no more")
}

func TestAStreamThatAnotherReplicaGoesOnSendingIsForgotten(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.writes(source("pod"), 0, "one\n")
	holder, other := b.replica(), b.replica()
	turnOf(holder, id, "pod")
	turnOf(other, id, "pod")
	require.Len(t, other.queue.all(), 1)
	j := holder.queue.all()[0]
	j.claim.until = time.Now().Add(renewTime)
	require.NoError(t, holder.claims.renew(t.Context(), j))
	turnOf(other, id, "pod")
	require.Empty(t, other.queue.all())
}

func TestAReplicaTakesOverFromOneThatHasCrashed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.writes(source("pod"), 0, "one\n")
	crashed, other := b.replica(), b.replica()
	turnOf(crashed, id, "pod")
	b.writes(source("pod"), 4, "two\n")
	now := time.Now()
	other.claims.now = func() time.Time { return now }
	turnOf(other, id, "pod")
	require.Equal(t, []string{"one"}, b.to.lines("pod"))
	now = now.Add(claimTime)
	turnOf(other, id, "pod")
	require.Equal(t, []string{"one", "one", "two"}, b.to.lines("pod"), "what wasn't noted is sent twice, and nothing is lost")
}

func TestAScanFindsWhatNobodySends(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stop := b.run(b.replica(func(o *Options) { o.Namespaces = []string{"none"} }))
	id := b.writes(source("pod"), 0, "one\n")
	stop()
	require.Empty(t, b.to.lines("pod"))
	first := b.replica()
	stop = b.run(first)
	// A response that comes after the stop isn't counted, and the line is sent again.
	eventually(t, func() bool { return testutil.ToFloat64(first.metrics.records) == 1 }, "the first scan finds it")
	stop()
	b.ends(id, 4)
	stop = b.run(b.replica())
	eventually(t, func() bool {
		_, last, err := (claims{b.bucket, ofLines, time.Now}).list(t.Context(), &job{id: id, namespace: "tenant", pod: "pod"})
		return err == nil && last.ending == isDone
	}, "its end is noted")
	stop()
	require.Len(t, b.to.lines("pod"), 1)
}

func TestClaimsOfStreamsThatAreGoneAreDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.writes(source("pod"), 0, "one\n")
	b.ends(id, 4)
	e := b.replica()
	turnOf(e, id, "pod")
	for _, gone := range []string{"exports/tenant/a/" + strings.Repeat("0", 32) + "-00000001-done", "exports/zone/z/" + strings.Repeat("f", 32) + "-00000001"} {
		require.NoError(t, b.bucket.Create(t.Context(), gone, []byte("0")))
	}
	e.now = func() time.Time { return time.Now().Add(2 * staleAge) }
	require.NoError(t, (&scan{Exporter: e}).run(t.Context()))
	var left []string
	require.NoError(t, b.bucket.Walk(t.Context(), "exports", "", func(o storage.Object) bool { left = append(left, o.Name); return true }))
	require.Equal(t, []string{"tenant/pod/" + id + "-00000001-done"}, left)
}

func TestADestinationThatFailsLosesNothing(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("it got a request") }))
	t.Cleanup(elsewhere.Close)
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request, _ []*logspb.ResourceLogs) bool{
		"429": func(w http.ResponseWriter, _ *http.Request, _ []*logspb.ResourceLogs) bool {
			w.WriteHeader(http.StatusTooManyRequests)
			return false
		},
		"500": func(w http.ResponseWriter, _ *http.Request, _ []*logspb.ResourceLogs) bool {
			w.WriteHeader(http.StatusInternalServerError)
			return false
		},
		"wrong token": func(w http.ResponseWriter, _ *http.Request, _ []*logspb.ResourceLogs) bool {
			w.WriteHeader(http.StatusUnauthorized)
			return false
		},
		"redirect": func(w http.ResponseWriter, r *http.Request, _ []*logspb.ResourceLogs) bool {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			return false
		},
		"cut": func(http.ResponseWriter, *http.Request, []*logspb.ResourceLogs) bool { panic(http.ErrAbortHandler) },
		"endless": func(w http.ResponseWriter, r *http.Request, _ []*logspb.ResourceLogs) bool {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.Copy(w, endless{})
			return false
		},
		"endless head": func(w http.ResponseWriter, r *http.Request, _ []*logspb.ResourceLogs) bool {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.to.will(answer)
			id := b.writes(source("pod"), 0, "one\n")
			e := b.replica()
			turnOf(e, id, "pod")
			require.Equal(t, 1, b.to.called())
			may, _, wait, _ := e.gate.enter()
			require.False(t, may)
			require.Positive(t, wait)
			require.Zero(t, e.queue.all()[0].offset)
			b.to.will(nil)
			turnOf(e, id, "pod")
			require.Equal(t, []string{"one"}, b.to.lines("pod"))
			may, tries, _, _ := e.gate.enter()
			require.True(t, may && !tries, "the gate is open again")
		})
	}
}

// endless is a body without an end.
type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestASlowDestinationIsGivenUpInTime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	release := make(chan struct{})
	defer close(release)
	b.to.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })
	id := b.writes(source("pod"), 0, "one\n")
	e := b.replica(func(o *Options) { o.Timeout = 50 * time.Millisecond })
	turnOf(e, id, "pod")
	require.Zero(t, e.queue.all()[0].offset)
	may, _, _, _ := e.gate.enter()
	require.False(t, may)
}

func TestACertificateOfAnotherCAIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	secure := httptest.NewUnstartedServer(b.to)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600))
	id := b.writes(source("pod"), 0, "one\n")
	turnOf(b.replica(func(o *Options) { o.URL = secure.URL }), id, "pod")
	require.Zero(t, b.to.called())
	e := b.replica(func(o *Options) { o.URL, o.CA = secure.URL, ca })
	other := b.writes(source("other"), 0, "two\n")
	turnOf(e, other, "other")
	require.Equal(t, []string{"two"}, b.to.lines("other"))
}

func TestARecordThatIsRefusedIsReplacedAndTheOthersAreSent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.to.will(func(w http.ResponseWriter, _ *http.Request, all []*logspb.ResourceLogs) bool {
		for _, of := range all {
			for _, r := range of.ScopeLogs[0].LogRecords {
				if r.Body.GetStringValue() == "bad" {
					http.Error(w, "it is\nbad", http.StatusBadRequest)
					return false
				}
			}
		}
		return true
	})
	id := b.writes(source("pod"), 0, "one\ntwo\nbad\nthree\n")
	b.ends(id, 18)
	e := b.replica()
	turnOf(e, id, "pod")
	require.Equal(t, []string{"one", "two", "[4 bytes were refused: HTTP 400: it is bad]", "three"}, b.to.lines("pod"))
	require.Equal(t, map[string]float64{"dropped": 0, "deleted": 0, "missing": 0, "refused": 1}, gapsOf(e))
}

func TestADestinationThatTakesNothingOfAStreamLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.to.will(func(w http.ResponseWriter, _ *http.Request, all []*logspb.ResourceLogs) bool {
		for _, of := range all {
			if attributes(of.Resource.Attributes)["k8s.pod.name"] == "pod" {
				w.WriteHeader(http.StatusBadRequest)
				return false
			}
		}
		return true
	})
	id := b.writes(source("pod"), 0, strings.Repeat("line\n", 5000))
	b.ends(id, 25000)
	other := b.writes(source("other"), 0, "fine\n")
	b.ends(other, 5)
	e, now := b.replica(), time.Now()
	e.now = func() time.Time { return now } // however slow the machine is, both are in one round
	for _, s := range []struct{ id, pod string }{{id, "pod"}, {other, "other"}} {
		e.queue.offer(s.id, "tenant", s.pod, e.now().Add(-time.Second))
	}
	j, _ := e.queue.tryNext()
	e.round(t.Context(), j, false)
	require.Equal(t, []string{"fine"}, b.to.lines("other"))
	require.Less(t, b.to.called(), 20)
	require.Len(t, e.queue.all(), 1)
	require.Zero(t, e.queue.all()[0].offset)
	b.to.will(nil)
	turnOf(e, id, "pod")
	require.Len(t, b.to.lines("pod"), 5000, "nothing is left out, though one request has no room for all")
}

func TestAPartialSuccessIsCountedAndNotRepeated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.to.will(func(w http.ResponseWriter, _ *http.Request, _ []*logspb.ResourceLogs) bool {
		w.Header().Set("Content-Type", "application/x-protobuf")
		answer, _ := proto.Marshal(&logscollector.ExportLogsServiceResponse{PartialSuccess: &logscollector.ExportLogsPartialSuccess{RejectedLogRecords: 1 << 40, ErrorMessage: "too old"}})
		_, _ = w.Write(answer)
		return true
	})
	id := b.writes(source("pod"), 0, "one\ntwo\n")
	e := b.replica()
	turnOf(e, id, "pod")
	turnOf(e, id, "pod")
	require.Equal(t, 1, b.to.called())
	require.Equal(t, int64(8), e.queue.all()[0].offset)
}

func TestAStreamThatIsDeletedIsSentNoMore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	e := b.replica()
	id := b.writes(source("pod"), 0, "one\n")
	turnOf(e, id, "pod")
	b.writes(source("pod"), 4, "two\n")
	require.NoError(t, b.store.MarkDeleted(t.Context(), id, source("pod")))
	turnOf(e, id, "pod")
	require.Equal(t, []string{"one"}, b.to.lines("pod"))
	require.Empty(t, e.queue.all())
}

func TestAWriteIsSentSoon(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	e := b.replica()
	b.run(e)
	id := b.writes(source("pod"), 0, "one\n")
	e.Wrote(id, source("pod"), 4)
	eventually(t, func() bool { return len(b.to.lines("pod")) == 1 }, "it is sent")
	eventually(t, func() bool { since, bytes, jobs := e.queue.lag(); return since.IsZero() && bytes == 0 && jobs == 1 }, "nothing lags")
}

func TestOlderStreamsAndOtherNamespacesAreLeftOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.writes(source("pod"), 0, "one\n")
	e := b.replica(func(o *Options) { o.Since = time.Now().Add(time.Hour) })
	turnOf(e, id, "pod")
	require.Empty(t, b.to.lines("pod"))
	require.Empty(t, e.queue.all())
	e = b.replica(func(o *Options) { o.Namespaces = []string{"other"} })
	e.Wrote(id, source("pod"), 4)
	require.Empty(t, e.queue.all())
}

func TestNamespacesTakeTurns(t *testing.T) {
	t.Parallel()
	q := newQueue(time.Now)
	for i := range 100 {
		q.offer(fmt.Sprint("greedy", i), "greedy", "pod", time.Now())
	}
	q.offer("modest", "modest", "pod", time.Now())
	var got []string
	for {
		j, _ := q.tryNext()
		if j == nil {
			break
		}
		got = append(got, j.namespace)
	}
	require.Equal(t, []string{"greedy", "modest", "greedy", "greedy", "greedy"}, got, "a namespace has half of the workers at most")
}

func TestANamespaceCantFillTheQueue(t *testing.T) {
	t.Parallel()
	q := newQueue(time.Now)
	q.most = 8
	require.True(t, q.offer("a", "greedy", "pod", time.Now()))
	require.True(t, q.offer("b", "greedy", "pod", time.Now()))
	require.False(t, q.offer("c", "greedy", "pod", time.Now()))
	require.False(t, q.wrote("c", "greedy", "pod", 1, soon))
	require.True(t, q.offer("d", "modest", "pod", time.Now()))
}

func TestWhileTheDestinationFailsOneWorkerTries(t *testing.T) {
	t.Parallel()
	now := time.Now()
	g := newGate(func() time.Time { return now })
	may, tries, _, _ := g.enter()
	require.True(t, may && !tries)
	require.Equal(t, now.Add(time.Second), g.failed(0))
	require.Equal(t, now.Add(time.Second), g.failed(time.Hour), "the failures of requests at the same time count once")
	now = now.Add(time.Second)
	may, tries, _, _ = g.enter()
	require.True(t, may && tries)
	may, _, _, opened := g.enter()
	require.False(t, may)
	g.leave()
	<-opened
	for range 70 {
		now = g.failed(0)
	}
	require.Equal(t, now.Add(longestPause), g.failed(0))
}

func TestRetryAfterIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-1": 0, "99999999": maxRetryAfter, "99999999999999999999999999": maxRetryAfter, "-99999999999999999999999999": 0, "soon": 0, "1e9": 0,
		now.Add(time.Minute).UTC().Format(http.TimeFormat): time.Minute, now.Add(1e6 * time.Second).UTC().Format(http.TimeFormat): maxRetryAfter, now.Add(-time.Hour).UTC().Format(http.TimeFormat): 0,
	} {
		require.Equal(t, want, retryAfter(value, now), "%q", value)
	}
}

func TestWrongSettingsAreRefusedWithoutTheirSecrets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	wrong := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(wrong, []byte("Authorization Bearer hidden"), 0o600))
	for name, change := range map[string]func(*Options){
		"use a URL":               func(o *Options) { o.URL = "collector:4318" },
		"without a password":      func(o *Options) { o.URL = "https://user:hidden@host/v1/logs" },
		"isn't NAME: VALUE":       func(o *Options) { o.Headers = wrong },
		"no such file":            func(o *Options) { o.Headers = wrong + "x" },
		"has no certificate":      func(o *Options) { o.CA = wrong },
		"use one of at most 1m0s": func(o *Options) { o.Timeout = time.Hour },
		"invalid name":            func(o *Options) { o.Namespaces = []string{"A B"} },
	} {
		o := Options{URL: "http://host/v1/logs", Timeout: time.Second}
		change(&o)
		_, err := New(b.store, b.bucket, o, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		require.ErrorContains(t, err, name)
		require.NotContains(t, err.Error(), "hidden")
	}
}

// Every byte is in a record, whatever fails: the destination takes a request and says that it
// didn't, or the replica crashes before it notes what was sent.
func TestEveryByteIsSentThoughReplicasCrash(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var calls int
	b.to.will(func(w http.ResponseWriter, _ *http.Request, _ []*logspb.ResourceLogs) bool {
		if calls++; calls%3 == 1 {
			w.WriteHeader(http.StatusBadGateway)
		}
		return calls%3 != 1
	})
	var at int64
	var want []string
	now := time.Now()
	var id string
	for i := range 30 {
		line := fmt.Sprintf("line %d", i)
		want = append(want, line)
		id = b.writes(source("pod"), at, line+"\n")
		at += int64(len(line)) + 1
		e := b.replica() // the one before it has crashed
		e.claims.now = func() time.Time { return now }
		turnOf(e, id, "pod")
		now = now.Add(2 * claimTime)
		turnOf(e, id, "pod")
	}
	b.ends(id, at)
	e := b.replica()
	for range 3 {
		e.claims.now = func() time.Time { return now }
		turnOf(e, id, "pod")
		now = now.Add(2 * claimTime)
	}
	sent := map[string]bool{}
	for _, line := range b.to.lines("pod") {
		sent[line] = true
	}
	for _, line := range want {
		require.True(t, sent[line], line)
	}
}

func TestAStreamIsLookedAtSeldomUnlessThereIsMuchToSend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(time.Now)
		q.wrote("id", "tenant", "pod", 10, time.Minute)
		j, in := q.tryNext()
		require.Nil(t, j)
		require.Equal(t, soon, in)
		time.Sleep(soon)
		j, _ = q.tryNext()
		j.offset = 10
		q.again(j, time.Now().Add(idleTime), false)
		q.wrote("id", "tenant", "pod", 20, time.Minute)
		_, in = q.tryNext()
		require.Equal(t, time.Minute, in, "a stream is looked at once in a pause")
		q.wrote("id", "tenant", "pod", 20+maxBatch, time.Minute)
		j, _ = q.tryNext()
		require.NotNil(t, j, "unless there is much to send")
		q.again(j, time.Now().Add(time.Hour), true)
		q.wrote("id", "tenant", "pod", 30+maxBatch, time.Minute)
		_, in = q.tryNext()
		require.Equal(t, time.Minute, in)
		since, lag, _ := q.lag()
		require.Equal(t, int64(20+maxBatch), lag)
		require.False(t, since.IsZero())
	})
}
