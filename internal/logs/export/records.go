// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/entrypointer/entrypointer/internal/logs/otlp"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/logs/times"
)

// maxLine bounds the body of a record, in bytes. Loki takes 256 KiB.
const maxLine = 64 << 10

// The attributes that OpenTelemetry has no names for.
const (
	// partialAttribute is true if the line goes on in the next record.
	partialAttribute = "entrypointer.partial"
	// gapAttribute is why bytes aren't there: one of the gaps.
	gapAttribute = "entrypointer.gap"
	// offsetAttribute and lengthAttribute are the place of a gap in its stream, in bytes.
	offsetAttribute, lengthAttribute = "entrypointer.offset", "entrypointer.length"
	// streamAttribute is the name of a stream that is neither stdout nor stderr.
	streamAttribute = "entrypointer.stream"
)

// The gaps.
const (
	gapDropped = "dropped" // the container has printed more than could be sent to the log service
	gapDeleted = "deleted" // by the retention, the quota or a user
	gapMissing = "missing" // nobody knows why
	gapRefused = "refused" // by the destination
)

// A record is a line, a part of a long line, or a gap; or it is a span.
type record struct {
	streams.Range
	span     *tracepb.Span
	resource *resourcepb.Resource // of the span

	at      int64 // when it was printed, in Unix milliseconds, 0 if unknown
	body    string
	partial bool
	gap     string
}

// gapRecord returns the record of bytes that aren't sent.
func gapRecord(r streams.Range, gap, why string) record {
	text := fmt.Sprintf("[%d bytes were %s]", r.Len(), gap)
	if gap == gapMissing {
		text = fmt.Sprintf("[%d bytes are missing]", r.Len())
	}
	if why != "" {
		text = fmt.Sprintf("[%d bytes were %s: %s]", r.Len(), gap, why)
	}
	return record{Range: r, body: text, gap: gap}
}

// A cutter cuts the parts of a stream into records.
type cutter struct {
	line []byte // the beginning of a line whose end hasn't come
	from int64  // its offset
	at   int64  // when it was printed
}

// cut calls each for the records that a part completes, until it returns an error.
func (c *cutter) cut(p streams.Part, each func(record) error) error {
	if p.Data == nil {
		if err := c.flush(true, each); err != nil {
			return err
		}
		gap := gapMissing
		switch {
		case p.Dropped:
			gap = gapDropped
		case p.Deleted:
			gap = gapDeleted
		}
		return each(gapRecord(p.Range, gap, ""))
	}
	marks := p.Times
	for data, offset := p.Data, p.From; len(data) > 0; {
		for len(marks) > 1 && marks[1].At <= offset {
			marks = marks[1:]
		}
		if len(c.line) == 0 {
			c.from, c.at = offset, timeOf(marks)
		}
		n, whole := len(data), false
		if end := bytes.IndexByte(data, '\n'); end >= 0 {
			n, whole = end+1, true
		}
		if room := maxLine - len(c.line); n > room {
			n, whole = room, false
		}
		c.line = append(c.line, data[:n]...)
		data, offset = data[n:], offset+int64(n)
		var err error
		if whole {
			err = c.emit(len(c.line), false, each)
		} else if len(c.line) == maxLine {
			err = c.emit(endOfRune(c.line), true, each)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func timeOf(marks []times.Mark) int64 {
	if len(marks) == 0 {
		return 0
	}
	return marks[0].Time
}

// endOfRune returns the length of a text without a character at its end that isn't whole.
func endOfRune(text []byte) int {
	for back := 1; back < utf8.UTFMax && back < len(text); back++ {
		if at := len(text) - back; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				return at
			}
			break
		}
	}
	return len(text)
}

// emit makes a record of the first n bytes of the line.
func (c *cutter) emit(n int, partial bool, each func(record) error) error {
	body := otlp.String(strings.TrimSuffix(string(c.line[:n]), "\n"))
	r := record{Range: streams.Range{From: c.from, To: c.from + int64(n)}, at: c.at, body: body, partial: partial}
	c.line = c.line[:copy(c.line, c.line[n:])]
	c.from += int64(n)
	return each(r)
}

// flush makes a record of a line whose end hasn't come.
func (c *cutter) flush(partial bool, each func(record) error) error {
	if len(c.line) == 0 {
		return nil
	}
	return c.emit(len(c.line), partial, each)
}

// encode returns the record of OTLP. Its ID is the same each time that it is sent.
func (r record) encode(id, name string, trace traceContext, now time.Time) *logspb.LogRecord {
	encoded := &logspb.LogRecord{
		ObservedTimeUnixNano: uint64(now.UnixNano()),
		SeverityNumber:       logspb.SeverityNumber_SEVERITY_NUMBER_UNSPECIFIED,
		Body:                 &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: r.body}},
		Attributes:           []*commonpb.KeyValue{otlp.Text(string(semconv.LogRecordUIDKey), fmt.Sprintf("%s-%x", id, r.From))},
		TraceId:              trace.trace, SpanId: trace.span, Flags: trace.flags,
	}
	if r.at > 0 {
		encoded.TimeUnixNano = uint64(r.at) * uint64(time.Millisecond)
	}
	if name == "stdout" || name == "stderr" {
		encoded.Attributes = append(encoded.Attributes, otlp.Text(string(semconv.LogIostreamKey), name))
	} else {
		encoded.Attributes = append(encoded.Attributes, otlp.Text(streamAttribute, name))
	}
	if r.partial {
		encoded.Attributes = append(encoded.Attributes, otlp.Bool(partialAttribute, true))
	}
	if r.gap != "" {
		encoded.SeverityNumber, encoded.SeverityText = logspb.SeverityNumber_SEVERITY_NUMBER_WARN, "WARN"
		encoded.Attributes = append(encoded.Attributes, otlp.Text(gapAttribute, r.gap), otlp.Number(offsetAttribute, r.From), otlp.Number(lengthAttribute, r.Len()))
	}
	return encoded
}
