// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package traceids makes the ids of traces and spans from the UIDs of Kubernetes objects,
// and reads and writes the headers of W3C Trace Context (https://www.w3.org/TR/trace-context-2).
// Admission, the supervisor and the log service have the same ids by it without asking each
// other. It imports nothing, because it runs in pods.
package traceids

// The variables by which a process hands a span to the processes that it starts
// (https://opentelemetry.io/docs/specs/otel/context/env-carriers).
const (
	ParentVariable = "TRACEPARENT"
	StateVariable  = "TRACESTATE"
)

// A TraceID is the id of a trace. All zeros are no id.
type TraceID [16]byte

// A SpanID is the id of a span within its trace. All zeros are no id.
type SpanID [8]byte

// String returns 32 lower-case hexadecimal digits.
func (t TraceID) String() string { return string(appendHex(nil, t[:])) }

// String returns 16 lower-case hexadecimal digits.
func (s SpanID) String() string { return string(appendHex(nil, s[:])) }

// Of returns the id of the trace that begins with the object of this UID, such as a
// PipelineRun: the 16 bytes of the UID. ok is false if it isn't the UID of a Kubernetes
// object, which is a UUID in lower case.
func Of(uid string) (id TraceID, ok bool) {
	if len(uid) != 36 {
		return TraceID{}, false
	}
	digits := make([]byte, 0, 2*len(id))
	for i := range len(uid) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if uid[i] != '-' {
				return TraceID{}, false
			}
			continue
		}
		digits = append(digits, uid[i])
	}
	if !parseHex(id[:], string(digits)) || id == (TraceID{}) {
		return TraceID{}, false
	}
	return id, true
}

// SpanOf returns the id of the span of the object of this UID: the last 8 bytes of the UID.
// ok is false if it isn't the UID of a Kubernetes object.
func SpanOf(uid string) (id SpanID, ok bool) {
	trace, ok := Of(uid)
	if !ok || trace.Root() == (SpanID{}) {
		return SpanID{}, false
	}
	return trace.Root(), true
}

// Root returns the span of the object with which the trace begins, for a trace of [Of]: the
// last 8 bytes.
func (t TraceID) Root() (id SpanID) {
	copy(id[:], t[len(t)-len(id):])
	return id
}

// Sampled is the flag by which a trace is recorded.
const Sampled byte = 1

// knownFlags are those that are passed on: sampled, and that the trace's id is random.
const knownFlags byte = 3

// A Parent is a span, as the header traceparent hands it to the work below the span.
type Parent struct {
	Trace TraceID
	Span  SpanID
	Flags byte
}

// The places of the parts of a traceparent of version 00.
const (
	traceAt, spanAt, flagsAt = 3, 36, 53
	parentLength             = 55
)

// Parse parses the header traceparent. A header of a later version may have further parts,
// which are left out, as flags that aren't known are. ok is false for anything else than such
// a header.
func Parse(traceparent string) (p Parent, ok bool) {
	var version, flags [1]byte
	switch {
	case len(traceparent) < parentLength,
		traceparent[traceAt-1] != '-' || traceparent[spanAt-1] != '-' || traceparent[flagsAt-1] != '-',
		!parseHex(version[:], traceparent[:traceAt-1]) || version[0] == 0xff,
		len(traceparent) > parentLength && (version[0] == 0 || traceparent[parentLength] != '-'),
		!parseHex(p.Trace[:], traceparent[traceAt:spanAt-1]) || p.Trace == (TraceID{}),
		!parseHex(p.Span[:], traceparent[spanAt:flagsAt-1]) || p.Span == (SpanID{}),
		!parseHex(flags[:], traceparent[flagsAt:parentLength]):
		return Parent{}, false
	}
	p.Flags = flags[0] & knownFlags
	return p, true
}

// From parses what names a trace: the header traceparent, or the UID of the object with which
// the trace begins. Such a trace has no span above, and is recorded. ok is false for anything
// else.
func From(text string) (p Parent, ok bool) {
	if p, ok = Parse(text); ok {
		return p, true
	}
	id, ok := Of(text)
	return Parent{Trace: id, Flags: Sampled}, ok
}

// String returns the header traceparent, of version 00.
func (p Parent) String() string {
	b := append(make([]byte, 0, parentLength), "00-"...)
	b = append(appendHex(b, p.Trace[:]), '-')
	b = append(appendHex(b, p.Span[:]), '-')
	return string(appendHex(b, []byte{p.Flags}))
}

func appendHex(b, id []byte) []byte {
	const digits = "0123456789abcdef"
	for _, c := range id {
		b = append(b, digits[c>>4], digits[c&15])
	}
	return b
}

// parseHex reads lower-case digits. It reports false for anything else, and for another
// number of digits.
func parseHex(to []byte, digits string) bool {
	if len(digits) != 2*len(to) {
		return false
	}
	for i := range to {
		high, ok1 := digit(digits[2*i])
		low, ok2 := digit(digits[2*i+1])
		if !ok1 || !ok2 {
			return false
		}
		to[i] = high<<4 | low
	}
	return true
}

func digit(c byte) (value byte, ok bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	default:
		return 0, false
	}
}
