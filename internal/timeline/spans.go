// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
	"time"
)

// open reports whether the span goes on.
func (s *Span) open() bool { return s.To.IsZero() }

// goesOn reports whether there is a span of a kind that hasn't ended.
func (s *Span) goesOn(kind Kind) bool { return s != nil && s.Kind == kind && s.open() }

// length returns how long the span took, or has taken so far.
func (s *Span) length(now time.Time) time.Duration {
	if s.open() {
		return max(0, now.Sub(s.From))
	}
	return s.To.Sub(s.From)
}

// last returns the span that began last, nil if there is none.
func (l *Life) last() *Span {
	if len(l.Spans) == 0 {
		return nil
	}
	return &l.Spans[len(l.Spans)-1]
}

// begin begins a span, and thereby ends the one before. What the supervisor does in between
// belongs to the one before, such as the start of a command to the wait for its turn.
func (l *Life) begin(kind Kind, at time.Time) *Span {
	if s := l.end(at); s != nil && s.To.Before(at) {
		s.done, s.To = s.To, at
	}
	l.Spans = append(l.Spans, Span{Kind: kind, From: at})
	return l.last()
}

// end ends the last span, unless it has ended.
func (l *Life) end(at time.Time) *Span {
	s := l.last()
	if s != nil && s.open() {
		s.To = at
	}
	return s
}

// ended returns when the last span ended, or else when the life began.
func (l *Life) ended() time.Time {
	if s := l.last(); s != nil && !s.open() {
		return s.To
	}
	return l.began
}

// find returns the last span of a kind, nil if there is none.
func (l *Life) find(kind Kind) *Span {
	for at := len(l.Spans) - 1; at >= 0; at-- {
		if l.Spans[at].Kind == kind {
			return &l.Spans[at]
		}
	}
	return nil
}

// tidied returns spans in their order, without those that took no time. Witnesses have
// different clocks and precisions: where two spans overlap, the later one begins at the end
// of the earlier one.
func tidied(spans []Span, from time.Time) (tidy []Span) {
	slices.SortStableFunc(spans, func(a, b Span) int { return a.From.Compare(b.From) })
	for _, s := range spans {
		if s.From.Before(from) {
			s.From = from
		}
		if !s.open() && !s.To.After(s.From) {
			if s.To = s.From; s.Kind != Running {
				continue
			}
		}
		if s.coarseFrom || s.coarseTo {
			s.Precision = wholeSeconds
		}
		from = cmp.Or(s.To, s.From)
		tidy = append(tidy, s)
	}
	return tidy
}

// all yields the spans of the pod and of its containers.
func (p *Pod) all(yield func(*Span) bool) {
	lists := [][]Span{p.Spans}
	for _, c := range p.Containers {
		lists = append(lists, c.Spans)
		for _, l := range c.Lives {
			lists = append(lists, l.Spans)
		}
	}
	for _, list := range lists {
		for at := range list {
			if !yield(&list[at]) {
				return
			}
		}
	}
}

// all returns the spans of a container in their order.
func (c *Container) all() []Span {
	spans := slices.Clone(c.Spans)
	for at, l := range c.Lives {
		for _, s := range l.Spans {
			s.source, s.start = l.Source, at+1
			spans = append(spans, s)
		}
	}
	return tidied(spans, time.Time{})
}

// from returns when the pod was created, or else when its first span began.
func (p *Pod) from() time.Time {
	first := p.Created
	for s := range p.all {
		first = earliest(first, s.From)
	}
	return first
}

// earliest returns the earlier of two moments, of which the first may be unknown.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
