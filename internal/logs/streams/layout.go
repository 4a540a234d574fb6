// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// A layout says which object has which bytes of a stream.
//
// Where objects overlap, the one that was written first counts; of those that
// were written at once, as far as the storage can tell, the first by name. What
// is stored isn't dropped, whatever comes later. So what a reader has seen doesn't
// change, and neither order nor repetition of the requests matters.
type layout struct {
	stored   []piece // in order, disjoint
	have     Ranges  // what they cover
	dropped  Ranges  // disjoint from have
	written  time.Time
	total    int64
	complete bool // total is known
}

// A piece is what counts of an object.
type piece struct {
	Range
	object Range // all that the object has
}

// layout looks at the objects that there are.
func (s *Store) layout(ctx context.Context, id string) (*layout, error) {
	l := &layout{}
	var err error
	// Before the data: what ended has all of its data.
	if l.total, l.complete, err = s.length(ctx, id); err != nil {
		return nil, fmt.Errorf("looking for the end of stream %q: %w", id, err)
	}
	data, err := s.bucket.List(ctx, directory(id)+"data")
	if err != nil {
		return nil, fmt.Errorf("listing stream %q: %w", id, err)
	}
	drops, err := s.bucket.List(ctx, directory(id)+"drop")
	if err != nil {
		return nil, fmt.Errorf("listing what stream %q dropped: %w", id, err)
	}
	l.store(data)
	for _, o := range drops {
		if r, ok := parseSpan(o.Name); ok {
			for _, missing := range l.have.MissingIn(l.within(r)) {
				l.dropped = l.dropped.With(missing)
			}
		}
	}
	return l, nil
}

// within is what of a range is before the end.
func (l *layout) within(r Range) Range {
	if l.complete {
		r.To = min(r.To, l.total)
	}
	return r
}

func (l *layout) store(objects []storage.Object) {
	slices.SortStableFunc(objects, func(a, b storage.Object) int {
		return cmp.Or(a.Written.Compare(b.Written), strings.Compare(a.Name, b.Name))
	})
	for _, o := range objects {
		r, ok := parseSpan(o.Name)
		if !ok || r.Len() > MaxWrite {
			continue
		}
		for _, missing := range l.have.MissingIn(l.within(r)) {
			l.stored = append(l.stored, piece{missing, r})
		}
		l.have = l.have.With(l.within(r))
		l.written = o.Written
	}
	slices.SortFunc(l.stored, func(a, b piece) int { return cmp.Compare(a.From, b.From) })
}

// A State is what is known of a stream.
type State struct {
	Stored  Ranges
	Dropped Ranges
	// Missing is what neither came nor was dropped, before something that did, or
	// before the end.
	Missing Ranges
	// Total is the stream's length, if Complete.
	Total    int64
	Complete bool
}

// State looks at a stream.
func (s *Store) State(ctx context.Context, id string) (State, error) {
	if _, err := s.Source(ctx, id); err != nil {
		return State{}, err
	}
	l, err := s.layout(ctx, id)
	if err != nil {
		return State{}, err
	}
	known := slices.Clone(l.have)
	for _, r := range l.dropped {
		known = known.With(r)
	}
	end := known.End()
	if l.complete {
		end = l.total
	}
	return State{
		Stored: l.have, Dropped: l.dropped, Missing: known.MissingIn(Range{0, end}),
		Total: l.total, Complete: l.complete,
	}, nil
}
