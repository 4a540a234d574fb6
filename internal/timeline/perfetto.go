// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"io"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of the fields that are written, of Perfetto's messages Trace, TracePacket,
// TrackDescriptor, TrackEvent and DebugAnnotation (protos/perfetto/trace).
const (
	tracePacket = 1

	packetTimestamp  = 8
	packetSequence   = 10
	packetEvent      = 11
	packetDescriptor = 60

	trackUUID   = 1
	trackName   = 2
	trackParent = 5
	trackOrder  = 11
	trackRank   = 12

	eventAnnotation = 4
	eventType       = 9
	eventTrack      = 11
	eventCategory   = 22
	eventName       = 23

	annotationText = 6
	annotationName = 10
)

// The values of enums that are written.
const (
	sliceBegin = 1 // TrackEvent.Type
	sliceEnd   = 2
	explicit   = 3 // TrackDescriptor.ChildTracksOrdering
)

// sequence identifies the writer of the packets.
const sequence = 1

// A message is a message of Protocol Buffers.
type message []byte

func (m message) number(field protowire.Number, value uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), value)
}

func (m message) text(field protowire.Number, value string) message {
	return protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), value)
}

func (m message) message(field protowire.Number, value message) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), value)
}

// A trace collects packets.
type trace struct {
	packets message
	tracks  uint64
}

// track adds a track, and returns its UUID.
func (t *trace) track(name string, parent uint64) uint64 {
	t.tracks++
	d := message{}.number(trackUUID, t.tracks).text(trackName, name).number(trackOrder, explicit).number(trackRank, t.tracks)
	if parent != 0 {
		d = d.number(trackParent, parent)
	}
	t.packets = t.packets.message(tracePacket, message{}.message(packetDescriptor, d).number(packetSequence, sequence))
	return t.tracks
}

func (t *trace) event(at time.Time, kind, track uint64, rest message) {
	event := append(message{}.number(eventType, kind).number(eventTrack, track), rest...)
	t.packets = t.packets.message(tracePacket, message{}.number(packetTimestamp, uint64(max(0, at.UnixNano()))).
		message(packetEvent, event).number(packetSequence, sequence))
}

// slice adds a span. One that goes on has no end.
func (t *trace) slice(s *Span, track uint64) {
	name := string(s.Kind)
	if s.For != "" {
		name += ": " + short(s.For)
	}
	about := message{}.text(eventCategory, string(s.Kind)).text(eventName, name)
	exitCode := ""
	if s.ExitCode != nil {
		exitCode = strconv.Itoa(*s.ExitCode)
	}
	for _, a := range [][2]string{{"for", s.For}, {"outcome", s.Outcome}, {"exitCode", exitCode}, {"precision", s.Precision}, {"source", string(s.source)}} {
		if a[1] != "" {
			about = about.message(eventAnnotation, message{}.text(annotationName, a[0]).text(annotationText, a[1]))
		}
	}
	t.event(s.From, sliceBegin, track, about)
	if !s.open() {
		t.event(s.To, sliceEnd, track, nil)
	}
}

// WritePerfetto writes a timeline as a trace of TrackEvents, for Perfetto
// (https://ui.perfetto.dev): a track for each pod, with one for each container below it,
// and one for the critical path.
func (t *Timeline) WritePerfetto(w io.Writer) error {
	var to trace
	for at := range t.Pods {
		p := &t.Pods[at]
		of := to.track("pod/"+p.Name, 0)
		for i := range p.Spans {
			to.slice(&p.Spans[i], of)
		}
		for _, c := range p.Containers {
			track := to.track(c.Name, of)
			for _, s := range c.all() {
				to.slice(&s, track)
			}
		}
	}
	if len(t.CriticalPath) > 0 {
		path := to.track("critical path", 0)
		for _, s := range t.CriticalPath {
			to.event(s.From, sliceBegin, path, message{}.text(eventName, s.TaskRun))
			to.event(s.To, sliceEnd, path, nil)
		}
	}
	_, err := w.Write(to.packets)
	return err
}
