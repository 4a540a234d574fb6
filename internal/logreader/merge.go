// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// maxHeld bounds the parts held in memory of all streams together, in bytes. A stream is
	// read again when its parts are printed, and no connection stays open meanwhile.
	maxHeld = 32 << 20
	// minHeld is how much can be held of one stream in any case, in bytes: a part.
	minHeld = 256 << 10
	// partSize and markSize are upper bounds for the overhead of parts and their times, in
	// bytes.
	partSize, markSize = 128, 16
)

// A merger prints several streams line by line, sorted by time and then by the order of
// the streams.
//
// It doesn't read a stream before everything is printed that is older than the start of
// its container. Steps and tasks run one after another, so few streams are held at a
// time.
type merger struct {
	*Client
	Options
	sources []*source // a heap
	open    int       // how many are being read
	memory  int       // the bound of all parts, in bytes
	cutOff  int       // how many streams were cut off
}

// A source is a stream to merge.
type source struct {
	stream Stream
	order  int
	sink   *sink

	opened, ended bool
	complete      bool   // nothing can follow
	hasStopped    bool   // the container has ended, so the next read brings everything
	from          int64  // the offset behind the held parts
	parts         []part // the held parts
	line          line   // the next line, once opened
	key           int64  // the time by which sources are sorted: of the next line, or of the start
}

func newMerger(c *Client, o Options, streams []Stream) *merger {
	m := &merger{Client: c, Options: o, memory: maxHeld}
	for i, s := range streams {
		// The printer has to know all containers before the first line.
		m.sources = append(m.sources, &source{stream: s, order: i, sink: o.Printer.sink(s), key: s.began()})
	}
	return m
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (m *merger) Len() int { return len(m.sources) }

func (m *merger) Less(i, j int) bool {
	a, b := m.sources[i], m.sources[j]
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.order, b.order)) < 0
}

func (m *merger) Swap(i, j int) { m.sources[i], m.sources[j] = m.sources[j], m.sources[i] }

func (m *merger) Push(x any) { m.sources = append(m.sources, x.(*source)) }

func (m *merger) Pop() any {
	last := m.sources[len(m.sources)-1]
	m.sources = m.sources[:len(m.sources)-1]
	return last
}

func (m *merger) run(ctx context.Context) error {
	heap.Init(m)
	for len(m.sources) > 0 {
		s := m.sources[0]
		if s.opened {
			if err := s.sink.print(s.line); err != nil {
				return err
			}
		}
		more, err := m.advance(ctx, s)
		switch {
		case err != nil:
			return errors.Join(err, m.Printer.flush())
		case more:
			heap.Fix(m, 0)
		default:
			heap.Pop(m)
			m.open--
		}
	}
	return cmp.Or(m.Printer.flush(), cutOffError(m.cutOff))
}

// advance moves to the next line of a stream, if there is one.
func (m *merger) advance(ctx context.Context, s *source) (more bool, err error) {
	if !s.opened {
		s.opened = true
		m.open++
		if s.from, err = m.startOffset(ctx, s.stream, m.Options); err != nil {
			return false, err
		}
	}
	for {
		if s.line, more = s.sink.lines.next(); more {
			break
		}
		if len(s.parts) == 0 && !s.ended {
			if err := m.fill(ctx, s); err != nil {
				return false, err
			}
		}
		if len(s.parts) == 0 {
			s.line, more = s.sink.lines.rest()
			break
		}
		s.sink.lines.feed(s.parts[0])
		s.parts[0] = part{} // for the garbage collector
		s.parts = s.parts[1:]
	}
	s.key = max(s.key, s.line.time)
	return more, nil
}

// fill reads more parts of a stream.
func (m *merger) fill(ctx context.Context, s *source) error {
	if err := m.Printer.flush(); err != nil {
		return err
	}
	to := &partBuffer{maxBytes: max(m.memory/m.open, minHeld)}
	complete, err := m.copyParts(ctx, s.stream, s.from, false, to)
	if len(to.parts) > 0 {
		s.parts, s.from = to.parts, to.parts[len(to.parts)-1].To
		s.stream.span.Since = time.Time{} // which is found
	}
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err != nil, complete:
		s.ended, s.complete = true, complete
		return err
	case s.hasStopped:
		return m.fillEnd(ctx, s)
	}
	state, err := m.containerState(ctx, s.stream)
	s.hasStopped, s.ended = state == stateEnded, state != stateEnded
	if state == stateUnknown && err == nil {
		_, _ = fmt.Fprintln(m.Warnings, s.stream.cutOffWarning(state))
	}
	if s.hasStopped && s.from == 0 && s.stream.span == (Span{}) { // not a byte is known
		return m.fill(ctx, s)
	}
	return err
}

// fillEnd adds what is known behind the last part of a stream that was cut off.
func (m *merger) fillEnd(ctx context.Context, s *source) error {
	missing, is, err := m.missingAt(ctx, s.stream, s.from)
	if err != nil {
		return err
	}
	if is {
		s.parts, s.from = append(s.parts, missing), missing.To
		return nil
	}
	s.ended = true
	m.cutOff++
	_, _ = fmt.Fprintln(m.Warnings, s.stream.cutOffWarning(stateEnded))
	if m.Events {
		s.parts = append(s.parts, part{From: s.from, To: s.from, cutOff: true})
	}
	return nil
}

// errEnough is returned by a partSink that has enough.
var errEnough = errors.New("enough was read")

// A partBuffer is a partSink that holds parts up to a size.
type partBuffer struct {
	parts               []part
	heldBytes, maxBytes int
}

func (h *partBuffer) part(p part) error {
	h.parts = append(h.parts, p)
	if h.heldBytes += len(p.Data) + partSize + markSize*len(p.Times); h.heldBytes >= h.maxBytes {
		return errEnough
	}
	return nil
}
