// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package spans makes the spans of traces: of a start of a container from its stream of
// events, and of a TaskRun and a PipelineRun of Tekton from these objects. Names and
// attributes are those of OpenTelemetry's semantic conventions for CI/CD and Kubernetes.
//
// The same events make the same spans, with the same ids, wherever and however often they are
// read. Containers write their events, so anything may be in them: texts, their number and
// times are bounded, and what makes no sense is left out.
package spans

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/entrypointer/entrypointer/internal/logs/events"
	"github.com/entrypointer/entrypointer/internal/logs/otlp"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
	"github.com/entrypointer/entrypointer/pkg/traceids"
)

const (
	// maxChildren bounds the spans within that of a container, besides that of its command.
	maxChildren = 100
	// maxMoments bounds the events of a span.
	maxMoments = 32
	// maxText bounds a text of an event, in bytes.
	maxText = 256
	// maxAge bounds the times of events: times beyond are wrong or made up.
	maxAge = 366 * 24 * time.Hour
)

// The attributes that OpenTelemetry has no names for.
const (
	waitForAttribute, outcomeAttribute = "entrypointer.wait.for", "entrypointer.wait.outcome"
	hookAttribute                      = "entrypointer.hook"
	pauseAttribute, signalAttribute    = "entrypointer.pause", "entrypointer.signal"
	// reasonAttribute is why the container ended.
	reasonAttribute = "entrypointer.reason"
	// leftOutAttribute is how many spans within a container weren't made, beyond maxChildren.
	leftOutAttribute = "entrypointer.left_out_spans"
	// CutOff is the reason of a container of which nobody has told the end.
	CutOff = "CutOff"
)

// The names of the spans within that of a container.
const (
	waitSpan, hookSpan, pauseSpan, runSpan = "wait", "hook", "pause", "run"
)

// A Made is a span, with the offset in the stream of events behind what completes it.
type Made struct {
	*tracepb.Span
	To int64
}

// A Start is a start of a container, as its events tell it.
type Start struct {
	source streams.Source
	now    time.Time

	parent        traceids.Parent // the span of this start, in the form that is handed on
	above         []byte          // the span that has it, nil for none
	traced        bool
	tracedAt      int64 // the offset behind the event that has the ids
	first, last   time.Time
	spans         []Made
	open          *tracepb.Span // the last of spans, while it lasts
	ran, finished bool
	leftOut       int
	moments       []*tracepb.Span_Event // of the container, outside of its command
}

// New returns a start without events. Times after now, and a bit, don't count.
func New(source streams.Source, now time.Time) *Start {
	return &Start{source: source, now: now}
}

// Add adds a line of the stream of events, which ends at an offset. What isn't an event of a
// possible time stands for bytes that are missing, and is left out.
func (s *Start) Add(line []byte, to int64) {
	e, is := events.Parse(line, s.now.Add(-maxAge), s.now)
	if s.finished || !is {
		return
	}
	if e.Time.Before(s.last) { // the clock of the node was set back
		e.Time = s.last
	}
	if s.last = e.Time; s.first.IsZero() {
		s.first = e.Time
	}
	s.identify(e, to)
	s.tell(e, to)
}

// identify takes the ids of the first event that has them.
func (s *Start) identify(e events.Event, to int64) {
	if s.traced || e.TraceParent == "" {
		return
	}
	if s.parent, s.traced = traceids.Parse(e.TraceParent); !s.traced {
		return
	}
	s.tracedAt = to
	// A span has the same form as the one in a traceparent.
	above, is := traceids.Parse("00-" + s.parent.Trace.String() + "-" + e.ParentSpanID + "-00")
	if is && above.Span != s.parent.Span {
		s.above = above.Span[:]
	}
}

// tell adds what an event says.
func (s *Start) tell(e events.Event, to int64) {
	switch e.Event {
	case "waiting":
		s.wait(e, to)
	case "waited":
		s.waited(e, to)
	case "hookStarted":
		s.begin(hookSpan, e.Time, to, otlp.Number(hookAttribute, e.Hook), otlp.Text(string(semconv.ProcessCommandKey), short(e.Argv0)), otlp.Number(string(semconv.ProcessPIDKey), e.PID))
	case "hookEnded":
		s.end(hookSpan, e.Time, to, exit(e)...)
	case "paused":
		s.begin(pauseSpan, e.Time, to, otlp.Text(pauseAttribute, short(e.At)))
	case "continued":
		s.end(pauseSpan, e.Time, to)
	case "started":
		if !s.ran {
			s.begin(runSpan, e.Time, to, otlp.Text(string(semconv.ProcessCommandKey), short(e.Argv0)), otlp.Number(string(semconv.ProcessPIDKey), e.PID))
		}
	case "exited":
		s.end(runSpan, e.Time, to, exit(e)...)
	case "finished":
		s.finish(e.Time, to, e.Reason, e.ExitCode)
	case "signal", "timeout", "stopHeld", "stopPassed", "stopWhen", "oomKilled", "sendingFailed", "sendingResumed":
		s.note(e)
	}
}

// wait begins a wait, or adds what else is waited for.
func (s *Start) wait(e events.Event, to int64) {
	if s.open == nil || s.open.Name != waitSpan {
		s.begin(waitSpan, e.Time, to, &commonpb.KeyValue{
			Key: waitForAttribute, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{}}},
		})
	}
	on := cmp.Or(e.Dependency, e.File)
	if s.open == nil || on == "" {
		return
	}
	if list := s.open.Attributes[0].Value.GetArrayValue(); len(list.Values) < maxMoments {
		list.Values = append(list.Values, otlp.Text("", short(on)).Value)
	}
}

// waited ends a wait. That for a URL or a pipe has no event of its beginning.
func (s *Start) waited(e events.Event, to int64) {
	if s.open == nil || s.open.Name != waitSpan {
		from := e.Time.Add(-time.Duration(min(max(e.Milliseconds, 0), maxAge.Milliseconds())) * time.Millisecond)
		if from.Before(s.lastEnd()) {
			from = s.lastEnd()
		}
		s.begin(waitSpan, from, to)
	}
	if s.open == nil {
		return
	}
	if e.Outcome == "failed" || e.Outcome == "timedOut" || e.Outcome == "unknown" {
		s.open.Status = failure(short(e.Outcome))
	}
	s.end(waitSpan, e.Time, to, otlp.Text(outcomeAttribute, short(e.Outcome)))
}

// lastEnd returns when the last span ended, or when the start began.
func (s *Start) lastEnd() time.Time {
	if len(s.spans) == 0 {
		return s.first
	}
	return time.Unix(0, int64(s.spans[len(s.spans)-1].EndTimeUnixNano)) //nolint:gosec // G115: a time
}

// begin begins a span within that of the container, and ends the one before.
func (s *Start) begin(name string, at time.Time, to int64, attributes ...*commonpb.KeyValue) {
	if s.open != nil {
		s.end(s.open.Name, at, to)
	}
	if name == runSpan {
		s.ran = true
	} else if len(s.spans) >= maxChildren {
		s.leftOut++
		return
	}
	s.open = &tracepb.Span{
		Name: name, Kind: tracepb.Span_SPAN_KIND_INTERNAL, StartTimeUnixNano: nanoseconds(at), Attributes: attributes,
	}
	s.spans = append(s.spans, Made{Span: s.open})
}

// end ends a span of a name, if it lasts.
func (s *Start) end(name string, at time.Time, to int64, attributes ...*commonpb.KeyValue) {
	if s.open == nil || s.open.Name != name {
		return
	}
	s.open.EndTimeUnixNano = max(nanoseconds(at), s.open.StartTimeUnixNano)
	s.open.Attributes = append(s.open.Attributes, attributes...)
	for _, a := range attributes {
		if code := a.Value.GetIntValue(); a.Key == string(semconv.ProcessExitCodeKey) && code != 0 {
			s.open.Status = failure(fmt.Sprintf("exit code %d", code))
		}
	}
	s.spans[len(s.spans)-1].To = to
	s.open = nil
}

// note adds a moment to the span that lasts, or to that of the container.
func (s *Start) note(e events.Event) {
	list := &s.moments
	if s.open != nil {
		list = &s.open.Events
	}
	if len(*list) >= maxMoments {
		return
	}
	moment := &tracepb.Span_Event{TimeUnixNano: nanoseconds(e.Time), Name: e.Event}
	for _, of := range []struct{ key, value string }{
		{signalAttribute, e.Signal}, {"entrypointer.dependency", e.Dependency}, {"entrypointer.outcome", e.Outcome},
	} {
		if of.value != "" {
			moment.Attributes = append(moment.Attributes, otlp.Text(of.key, short(of.value)))
		}
	}
	if e.Processes > 0 {
		moment.Attributes = append(moment.Attributes, otlp.Number("entrypointer.processes", e.Processes))
	}
	*list = append(*list, moment)
}

// exit returns how a process ended.
func exit(e events.Event) (list []*commonpb.KeyValue) {
	if e.ExitCode != nil {
		list = append(list, otlp.Number(string(semconv.ProcessExitCodeKey), *e.ExitCode))
	}
	if e.Signal != "" {
		list = append(list, otlp.Text(signalAttribute, short(e.Signal)))
	}
	return list
}

// finish makes the span of the container.
func (s *Start) finish(at time.Time, to int64, reason string, code *int64) {
	if s.finished || s.first.IsZero() {
		return
	}
	if at.Before(s.first) {
		at = s.first
	}
	if s.open != nil {
		if code == nil {
			s.open.Status = failure(reason)
		}
		s.end(s.open.Name, at, to)
	}
	s.finished = true
	reason = short(reason)
	span := &tracepb.Span{
		Name: s.name(), Kind: tracepb.Span_SPAN_KIND_INTERNAL, Events: s.moments,
		StartTimeUnixNano: nanoseconds(s.first), EndTimeUnixNano: nanoseconds(at),
		Attributes: []*commonpb.KeyValue{otlp.Text(reasonAttribute, reason)},
	}
	if code != nil {
		span.Attributes = append(span.Attributes, otlp.Number(string(semconv.ProcessExitCodeKey), *code))
	}
	if s.leftOut > 0 {
		span.Attributes = append(span.Attributes, otlp.Number(leftOutAttribute, int64(s.leftOut)))
	}
	result := resultOf(reason, code, s.ran)
	if code == nil || *code != 0 {
		span.Status = failure(reason)
		span.Attributes = append(span.Attributes, otlp.Text(string(semconv.ErrorTypeKey), cmp.Or(reason, "_OTHER")))
	}
	if taskRun := s.source.Labels[loglabels.TaskRun]; taskRun != "" {
		span.Attributes = append(span.Attributes,
			otlp.Text(string(semconv.CICDPipelineTaskNameKey), s.name()),
			otlp.Text(string(semconv.CICDPipelineTaskRunIDKey), taskRun+"/"+s.source.Container),
			otlp.Text(string(semconv.CICDPipelineTaskRunResultKey), result))
	}
	s.spans = append(s.spans, Made{span, to})
}

// name returns the name of the container's span: for a step, that of the step.
func (s *Start) name() string {
	if step, is := strings.CutPrefix(s.source.Container, "step-"); is && s.source.Labels[loglabels.TaskRun] != "" {
		return step
	}
	return cmp.Or(s.source.Container, "container")
}

// resultOf returns the result of a step, of those that OpenTelemetry knows.
func resultOf(reason string, code *int64, ran bool) string {
	switch {
	case reason == "DependencyFailure", reason == "Unneeded" && !ran:
		return resultSkip
	case reason == "Stopped":
		return resultCancellation
	case code != nil && *code == 0:
		return resultSuccess
	case reason == "Timeout":
		return resultTimeout
	case reason == CutOff, reason == "StartFailure":
		return resultError
	default:
		return resultFailure
	}
}

// The results of runs, of tasks and pipelines alike.
var (
	resultSuccess      = semconv.CICDPipelineTaskRunResultSuccess.Value.AsString()
	resultFailure      = semconv.CICDPipelineTaskRunResultFailure.Value.AsString()
	resultError        = semconv.CICDPipelineTaskRunResultError.Value.AsString()
	resultTimeout      = semconv.CICDPipelineTaskRunResultTimeout.Value.AsString()
	resultCancellation = semconv.CICDPipelineTaskRunResultCancellation.Value.AsString()
	resultSkip         = semconv.CICDPipelineTaskRunResultSkip.Value.AsString()
)

// CutOff ends a start that has told no end and won't: its container is gone. When it ended, why
// and with which code are the kubelet's words, or a zero time, "" and nil.
func (s *Start) CutOff(at time.Time, reason string, code *int64) {
	if at.Before(s.last) || at.After(s.now.Add(events.ClockSkew)) {
		at = s.last
	}
	s.finish(at, streams.MaxOffset, cmp.Or(reason, CutOff), code)
}

// IDs returns the ids of the start's own span, if its events have any.
func (s *Start) IDs() (own traceids.Parent, traced bool) { return s.parent, s.traced }

// Last returns the time of the last event.
func (s *Start) Last() time.Time { return s.last }

// Finished reports whether the span of the container is there.
func (s *Start) Finished() bool { return s.finished }

// Made returns the spans that are complete, in the order in which they were, without those
// that were complete before an offset. There are none if the trace isn't recorded.
func (s *Start) Made(after int64) (list []Made) {
	if !s.traced || s.parent.Flags&traceids.Sampled == 0 {
		return nil
	}
	seen := map[string]int{}
	for at, m := range s.spans {
		m.To = max(m.To, s.tracedAt)
		m.TraceId, m.Flags = s.parent.Trace[:], uint32(s.parent.Flags)
		if s.finished && at == len(s.spans)-1 {
			m.SpanId, m.ParentSpanId = s.parent.Span[:], s.above
		} else {
			seen[m.Name]++
			m.SpanId, m.ParentSpanId = within(s.parent, m.Name, seen[m.Name]), s.parent.Span[:]
		}
		if m.Span != s.open && m.To > after {
			list = append(list, m)
		}
	}
	return list
}

// within returns the id of a span within another one.
func within(parent traceids.Parent, name string, number int) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", parent.Span, name, number))
	return sum[:len(parent.Span)]
}

func failure(why string) *tracepb.Status {
	return &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: otlp.String(why)}
}

func nanoseconds(at time.Time) uint64 { return uint64(max(0, at.UnixNano())) }

// short returns the beginning of a text that a container has chosen.
func short(text string) string { return text[:min(len(text), maxText)] }
