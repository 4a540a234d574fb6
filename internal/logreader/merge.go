// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
)

const (
	// ahead is how much is held of all streams together, in bytes. Each is read again
	// when what is held of it is printed, and no connection waits meanwhile.
	ahead = 32 << 20
	// leastAhead is how much is held of one, however many there are: a part.
	leastAhead = 256 << 10
	// partSize and markSize are what parts and their times take beside the data, or more.
	partSize, markSize = 128, 16
)

// A merging prints several streams, line by line, in the order in which the lines
// came. Of those that came at once, it is the order of the streams.
//
// A stream is read when all that came before its container began is printed: steps,
// and tasks, come one after the other, so few are held at a time.
type merging struct {
	*Client
	Options
	sources []*source // a heap
	open    int       // how many are being read
	budget  int       // how much is held, in bytes
}

// A source is one of the streams.
type source struct {
	stream Stream
	order  int
	sink   *sink

	opened, ended bool
	from          int64  // what isn't held begins here
	parts         []part // what is held
	line          line   // what comes next, once it is opened
	key           int64  // when that came
}

func newMerging(c *Client, o Options, streams []Stream) *merging {
	m := &merging{Client: c, Options: o, budget: ahead}
	for i, s := range streams {
		// All are known to the printer before the first line of one.
		m.sources = append(m.sources, &source{stream: s, order: i, sink: o.Printer.sink(s), key: s.began()})
	}
	return m
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (m *merging) Len() int { return len(m.sources) }

func (m *merging) Less(i, j int) bool {
	a, b := m.sources[i], m.sources[j]
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.order, b.order)) < 0
}

func (m *merging) Swap(i, j int) { m.sources[i], m.sources[j] = m.sources[j], m.sources[i] }

func (m *merging) Push(x any) { m.sources = append(m.sources, x.(*source)) }

func (m *merging) Pop() any {
	last := m.sources[len(m.sources)-1]
	m.sources = m.sources[:len(m.sources)-1]
	return last
}

func (m *merging) run(ctx context.Context) error {
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
	return m.Printer.flush()
}

// advance comes to the next line of a stream, if there is one.
func (m *merging) advance(ctx context.Context, s *source) (more bool, err error) {
	if !s.opened {
		s.opened = true
		m.open++
		if s.from, err = m.begin(ctx, s.stream, m.Options); err != nil {
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
		s.parts[0] = part{} // which isn't held any more
		s.parts = s.parts[1:]
	}
	s.key = max(s.key, s.line.time)
	return more, nil
}

// fill reads some of a stream.
func (m *merging) fill(ctx context.Context, s *source) error {
	if err := m.Printer.flush(); err != nil {
		return err
	}
	to := &holding{most: max(m.budget/m.open, leastAhead)}
	_, err := m.copy(ctx, s.stream, s.from, false, to)
	if errors.Is(err, errEnough) {
		err = nil
	} else {
		s.ended = true
	}
	if len(to.parts) > 0 {
		s.parts, s.from = to.parts, to.parts[len(to.parts)-1].To
	}
	return err
}

// errEnough ends the reading of a stream.
var errEnough = errors.New("no more is wanted for now")

// A holding takes parts until it has enough.
type holding struct {
	parts      []part
	held, most int
}

func (h *holding) part(p part) error {
	h.parts = append(h.parts, p)
	if h.held += len(p.Data) + partSize + markSize*len(p.Times); h.held >= h.most {
		return errEnough
	}
	return nil
}
