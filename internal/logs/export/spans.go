// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	tracecollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/entrypointer/entrypointer/internal/logs/otlp"
	"github.com/entrypointer/entrypointer/internal/logs/spans"
	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
	"github.com/entrypointer/entrypointer/pkg/traceids"
)

const (
	// eventsName is the name of the streams that spans are made of.
	eventsName = "events"
	// maxEvent bounds a line of such a stream, in bytes. Longer ones are no events.
	maxEvent = 16 << 10
	// spansUnclaimed is the age up to which a scan looks for streams without a claim. Older ones
	// aren't of traced containers, or are no streams of events.
	spansUnclaimed = 2 * time.Hour
	// spansFullEvery has all streams at rest looked at every six hours, to find containers that
	// are gone without a word.
	spansFullEvery = 6
	// quietTime is how long a container has told nothing before it is looked at whether it is
	// there.
	quietTime = 10 * time.Minute
	// minRunPause and maxRunPause bound the time between two looks at a run that goes on, and
	// maxRunTime how long after a container's end its runs are waited for.
	minRunPause, maxRunPause, maxRunTime = 2 * time.Second, 2 * time.Minute, 48 * time.Hour
	// runPauseShare is the share of the time since the end of the container.
	runPauseShare = 8
	// maxRuns bounds the runs that are remembered, for knownTime, so that the containers of a
	// run share a look at it.
	maxRuns, knownTime = 100, minRunPause
	// readTime bounds a request to the API server.
	readTime = 10 * time.Second
	// refusedTime is how long a resource in a namespace isn't asked for after the API server has
	// refused, and maxRefused bounds those that are remembered.
	refusedTime, maxRefused = 10 * time.Minute, 1000
)

// A Read reads an object of the API server, by its path, as JSON. The error is ErrUnreadable if
// it makes no sense to try again.
type Read func(ctx context.Context, path string) ([]byte, error)

// ErrUnreadable says that an object of the API server is too large, or isn't what it should be.
var ErrUnreadable = errors.New("the object can't be read, now or later")

// errNoRight says that the API server has refused to answer lately.
var errNoRight = errors.New("the service has no right to read the object")

// spanSignal makes spans of the streams of events of containers that are traced.
type spanSignal struct {
	*Exporter
	read    Read // nil without an API server
	runs    *cache.LRUExpireCache
	refused *cache.LRUExpireCache // by resource and namespace
	warned  sync.Map              // resources whose refusal was logged
}

// A clock is the time of an exporter.
type clock struct{ *Exporter }

// Now implements cache.Clock.
func (c clock) Now() time.Time { return c.now() }

// An ended is a start of a container whose spans were sent, and whose runs' are to be sent.
type ended struct {
	trace traceids.TraceID
	since time.Time
	// pipelineRun is the PipelineRun of a TaskRun whose span was sent.
	pipelineRun string
}

// NewSpans returns an exporter of spans. They are made of the events in a store, and of what
// the API server says about Tekton's runs and about pods that have told no end.
func NewSpans(store *streams.Store, bucket storage.Bucket, o Options, read Read, logger *slog.Logger, registry prometheus.Registerer) (*Exporter, error) {
	e, err := newExporter(store, claims{bucket, ofSpans, time.Now}, o, logger)
	if err != nil {
		return nil, err
	}
	e.signal = &spanSignal{
		Exporter: e, read: read, runs: cache.NewLRUExpireCacheWithClock(maxRuns, clock{e}), refused: cache.NewLRUExpireCacheWithClock(maxRefused, clock{e}),
	}
	e.only, e.fullEvery, e.unclaimed, e.metrics = eventsName, spansFullEvery, spansUnclaimed, newSpanMetrics(registry, e.queue, time.Now)
	return e, nil
}

// turn implements signal.
func (s *spanSignal) turn(ctx context.Context, j *job, source streams.Source, b *batch) outcome {
	o := outcome{job: j, end: j.offset, ended: j.ended}
	switch {
	case source.Name != eventsName || source.Labels[loglabels.TraceParent] == "":
		o.err = errDone // whatever its events say: all streams of a traced start have this label
	case o.ended == nil:
		s.containers(ctx, &o, source, b)
	default:
		o.err = s.hold(ctx, j)
	}
	if o.ended != nil && (o.err == nil || errors.Is(o.err, io.EOF)) {
		s.runsOf(ctx, &o, source, b)
	}
	o.isAll = o.err == nil || errors.Is(o.err, io.EOF) || errors.Is(o.err, errGoesOn)
	return o
}

// add adds a span to a batch, and sends the batch if it is full.
func (s *spanSignal) add(ctx context.Context, j *job, b *batch, span *tracepb.Span, of *resourcepb.Resource, to int64) error {
	b.add(j, record{Range: streams.Range{From: to, To: to}, span: span, resource: of})
	if b.isFull() {
		return s.flush(ctx, b)
	}
	return nil
}

// containers adds the spans of a start of a container. The error is io.EOF if it has ended,
// and errDone if it isn't traced.
func (s *spanSignal) containers(ctx context.Context, o *outcome, source streams.Source, b *batch) {
	start, own := s.start(ctx, o, source)
	isOver := errors.Is(o.err, io.EOF)
	switch {
	case o.err != nil && !isOver:
		return
	case !isOver && len(start.Made(o.job.offset)) == 0:
		if own.Flags&traceids.Sampled != 0 {
			o.err = s.hold(ctx, o.job) // so that a scan finds it after a crash, however long it takes
		}
		return
	}
	if err := s.describe(ctx, o.job, source); err != nil {
		o.err = err
		return
	}
	list := start.Made(o.job.offset)
	for at, m := range list {
		to := o.job.offset // with the last one, all are sent
		if at == len(list)-1 {
			to = o.end
		}
		if err := s.add(ctx, o.job, b, m.Span, o.job.resource, to); err != nil {
			o.err = err
			return
		}
	}
	if isOver {
		o.ended = &ended{trace: own.Trace, since: s.now()}
	}
}

// start reads a start of a container, with the ids of its span, and sets the end and the error
// of the outcome. A start is over once it has told its end, though the end of the stream may
// never come.
func (s *spanSignal) start(ctx context.Context, o *outcome, source streams.Source) (start *spans.Start, own traceids.Parent) {
	start, end, err := s.readEvents(ctx, o.job, source)
	own, traced := start.IDs()
	traced = traced && own.Flags&traceids.Sampled != 0
	o.end, o.err = max(o.end, end), err
	switch isOver := errors.Is(err, io.EOF); {
	case !traced && isOver:
		o.err = errDone
	case traced && isOver:
		start.CutOff(time.Time{}, "", nil) // unless it has told its end
	case traced && err == nil && (start.Finished() || s.isGone(ctx, source, start)):
		o.end, o.err = streams.MaxOffset, io.EOF
	}
	return start, own
}

// describe makes sure that this replica sends the spans of a start, and prepares what they have
// in common.
func (s *spanSignal) describe(ctx context.Context, j *job, source streams.Source) error {
	err := s.hold(ctx, j)
	if err == nil {
		err = s.count(ctx, j, source)
	}
	j.resource = spanResource(source, j.restarts)
	return err
}

// spanResource describes a container. Which task of a pipeline it is isn't said here, because
// the span of a step says of the step what the same attributes say of the TaskRun.
func spanResource(source streams.Source, restarts int) *resourcepb.Resource {
	of := resource(source, restarts)
	of.Attributes = slices.DeleteFunc(of.Attributes, func(a *commonpb.KeyValue) bool {
		return a.Key == string(semconv.CICDPipelineTaskNameKey) || a.Key == string(semconv.CICDPipelineTaskRunIDKey)
	})
	return of
}

// readEvents reads the events of a start, from the first one on, so no replica has to know
// what another one has read. It returns the offset behind the last one. The error is io.EOF if
// nothing comes any more.
func (s *spanSignal) readEvents(ctx context.Context, j *job, source streams.Source) (start *spans.Start, end int64, err error) {
	start = spans.New(source, s.now())
	store, release := s.store.WithMemoryHold(j.namespace)
	defer release()
	reader := store.Follower(j.id, 0)
	defer reader.Close()
	lines := eventLines{start: start}
	for lines.end < maxTurnBytes {
		part, err := reader.Next(ctx)
		switch {
		case errors.Is(err, streams.ErrNotYet):
			return start, lines.end, nil
		case err != nil:
			return start, lines.end, err
		}
		lines.add(part)
	}
	return start, streams.MaxOffset, io.EOF // no container has that much to tell
}

// eventLines cuts the parts of a stream into lines.
type eventLines struct {
	start *spans.Start
	line  []byte
	isCut bool // whether the beginning of the line is missing
	end   int64
}

func (l *eventLines) add(p streams.Part) {
	if l.end = p.To; p.Data == nil {
		l.line, l.isCut = nil, true
		return
	}
	for data, at := p.Data, p.From; len(data) > 0; {
		end := bytes.IndexByte(data, '\n')
		n := end + 1
		if end < 0 {
			n = len(data)
		}
		if l.isCut = l.isCut || len(l.line)+n > maxEvent; !l.isCut {
			l.line = append(l.line, data[:n]...)
		}
		data, at = data[n:], at+int64(n)
		if end < 0 {
			return
		}
		if !l.isCut {
			l.start.Add(l.line, at)
		}
		l.line, l.isCut = l.line[:0], false
	}
}

// request implements signal.
func (*spanSignal) request(items []item, _ time.Time) proto.Message {
	encoded := &tracecollector.ExportTraceServiceRequest{}
	var last *resourcepb.Resource
	for _, i := range items {
		if i.resource != last {
			last = i.resource
			encoded.ResourceSpans = append(encoded.ResourceSpans, &tracepb.ResourceSpans{
				Resource: last, SchemaUrl: semconv.SchemaURL,
				ScopeSpans: []*tracepb.ScopeSpans{{Scope: otlp.Scope(), SchemaUrl: semconv.SchemaURL}},
			})
		}
		scope := encoded.ResourceSpans[len(encoded.ResourceSpans)-1].ScopeSpans[0]
		scope.Spans = append(scope.Spans, i.span)
	}
	return encoded
}

// refusals implements signal: nothing can stand for a span.
func (*spanSignal) refusals([]item, string) []item { return nil }

// runsOf adds the spans of the runs that a container belongs to, if it is the one that sends
// them. The error of the outcome is io.EOF once there is nothing more to send, and errGoesOn
// while a run goes on.
func (s *spanSignal) runsOf(ctx context.Context, o *outcome, source streams.Source, b *batch) {
	taskRun := source.Labels[loglabels.TaskRun]
	known := *o.ended
	if o.err = io.EOF; s.read == nil {
		return
	}
	if known.pipelineRun == "" {
		r, is := s.run(ctx, o, "taskruns", source.Namespace, taskRun)
		if !is || !r.BeginsWith(source.Pod, source.Container) {
			return
		}
		span, of, is := r.TaskRunSpan(known.trace)
		if !is {
			return
		}
		if err := s.add(ctx, o.job, b, span, of, o.end); err != nil {
			o.err = err
			return
		}
		if known.pipelineRun, _ = r.PipelineRun(); known.pipelineRun == "" {
			return
		}
		o.ended = &known
	}
	r, is := s.run(ctx, o, "pipelineruns", source.Namespace, known.pipelineRun)
	if !is || !r.HasFirst(taskRun) {
		return
	}
	if span, of, is := r.PipelineRunSpan(known.trace); is {
		if err := s.add(ctx, o.job, b, span, of, o.end); err != nil {
			o.err = err
		}
	}
}

// run returns a run of Tekton if it is completed. If not, the error of the outcome says
// whether to look again.
func (s *spanSignal) run(ctx context.Context, o *outcome, resource, namespace, name string) (r *spans.Run, is bool) {
	// The name is a client's, or that of an owner that a tenant has written into a TaskRun, and
	// becomes part of a path.
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, false
	}
	r, err := s.readRun(ctx, resource, namespace, name)
	since := s.now().Sub(o.ended.since)
	switch {
	case err == nil && r.Completed():
		return r, true
	case apierrors.IsNotFound(err), errors.Is(err, errNoRight), since > maxRunTime:
		return nil, false
	case err != nil && ctx.Err() == nil:
		s.logger.Warn("A run whose span is to be sent can't be read", "resource", resource, "namespace", namespace, "name", name, "error", err)
	}
	if !errors.Is(err, ErrUnreadable) {
		o.err, o.pause = errGoesOn, min(max(since/runPauseShare, minRunPause), maxRunPause)
	}
	return nil, false
}

// readRun reads a run, or remembers it.
func (s *spanSignal) readRun(ctx context.Context, resource, namespace, name string) (*spans.Run, error) {
	key := resource + "/" + namespace + "/" + name
	if known, is := s.runs.Get(key); is {
		return known.(*spans.Run), nil
	}
	document, err := s.get(ctx, "/apis/tekton.dev/v1", resource, namespace, name)
	if err != nil {
		return nil, err
	}
	r, err := spans.ParseRun(document)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if r.Metadata.Namespace != namespace || r.Metadata.Name != name {
		return nil, fmt.Errorf("%w: it is another run than the one asked for", ErrUnreadable)
	}
	s.runs.Add(key, r, knownTime)
	return r, nil
}

// get reads an object of the API server. The error is errNoRight if the API server refuses, or
// has refused lately.
func (s *spanSignal) get(ctx context.Context, version, resource, namespace, name string) ([]byte, error) {
	of := resource + "/" + namespace
	if _, is := s.refused.Get(of); is {
		return nil, errNoRight
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	document, err := s.read(ctx, version+"/namespaces/"+namespace+"/"+resource+"/"+name)
	if !apierrors.IsForbidden(err) {
		return document, err
	}
	s.refused.Add(of, true, refusedTime)
	if _, was := s.warned.LoadOrStore(resource, true); !was {
		s.logger.Warn("Traces are without what these objects say, because they can't be read", "resource", resource, "namespace", namespace, "error", err)
	}
	return nil, errNoRight
}
