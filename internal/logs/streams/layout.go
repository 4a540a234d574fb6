// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// A layout says which object has which bytes of a stream.
//
// Where objects overlap, the one that was written first counts; of those that
// were written at once, as far as the storage can tell, the first by name. Once that
// is settled, objects are joined (tidy.go), and what is joined counts. What is stored isn't dropped, whatever comes later. So neither order nor repetition of
// the requests matters.
type layout struct {
	known    []piece     // in order, disjoint
	earliest []time.Time // of each piece and those after it, and the end: when the first came
	total    int64       // if complete
	complete bool
	ended    time.Time // when it was completed
}

// A piece is what counts of an object.
type piece struct {
	Range
	object  Range // all that the object has
	dropped bool
	joined  bool
	written time.Time
	size    int64 // of the object as it is stored
}

// A view is of the objects of a stream.
type view struct{ drops, data, joined []piece }

const (
	// settled is how long after it was written no object can appear that was written
	// before, by the storage's clock: which is the first to have a byte doesn't change.
	settled = 5 * time.Minute
	// lookLimit is how long a look at a stream may take, and joinedFor how long what
	// was joined stays: so whoever looks finds one or the other.
	lookLimit, joinedFor = time.Minute, 5 * time.Minute
)

// look lists a stream, in memory that is taken meanwhile.
func (s *Store) look(ctx context.Context, id string, h *hold) (v view, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookLimit, errors.New("listing a stream took too long"))
	defer cancel()
	// In this order: what was stored before it was dropped is found, and what was joined.
	for _, listing := range []struct {
		kind   string
		pieces *[]piece
	}{{"drop", &v.drops}, {"data", &v.data}, {"joined", &v.joined}} {
		if *listing.pieces, err = s.pieces(ctx, id, listing.kind, h); err != nil {
			return v, err
		}
	}
	return v, context.Cause(ctx)
}

// stored are the pieces that count of what isn't dropped.
func (v view) stored() []piece { return unless(firstOf(v.joined), firstOf(v.data)) }

// layout looks at the objects that there are. The hold has what it takes.
func (s *Store) layout(ctx context.Context, id string, h *hold) (*layout, error) {
	l := &layout{}
	if err := s.lookForEnd(ctx, id, l); err != nil {
		return nil, fmt.Errorf("looking for the end of stream %q: %w", id, err)
	}
	v, err := s.look(ctx, id, h)
	if err != nil {
		return nil, err
	}
	for _, pieces := range [][]piece{v.drops, v.data, v.joined} {
		for i := range pieces {
			if l.complete {
				pieces[i].To = min(pieces[i].To, l.total)
			}
		}
	}
	l.known = slices.Clone(unless(v.stored(), union(v.drops))) // as long as it is
	l.earliest = make([]time.Time, len(l.known)+1)
	l.earliest[len(l.known)] = l.ended
	for i, p := range slices.Backward(l.known) {
		if l.earliest[i] = l.earliest[i+1]; l.earliest[i].IsZero() || p.written.Before(l.earliest[i]) {
			l.earliest[i] = p.written
		}
	}
	h.keep(perKnown * int64(cap(l.known)+1))
	return l, nil
}

func (s *Store) lookForEnd(ctx context.Context, id string, l *layout) (err error) {
	if l.total, l.complete, err = s.length(ctx, id); err != nil || !l.complete {
		return err
	}
	objects, err := s.bucket.List(ctx, directory(id))
	for _, o := range objects {
		if o.Name == "end" {
			l.ended = o.Written
		}
	}
	return err
}

// lookStep is for how many pieces memory is taken at once.
const lookStep = 64

// pieces are the objects of one kind, whole, and in no order.
func (s *Store) pieces(ctx context.Context, id, kind string, h *hold) (list []piece, err error) {
	var busy error
	err = s.eachPiece(ctx, id, kind, func(p piece) bool {
		if len(list)%lookStep == 0 {
			busy = h.grow(ctx, lookStep*perLooked)
		}
		list = append(list, p)
		return busy == nil
	})
	return list, cmp.Or(busy, err)
}

// eachPiece passes them on, until each returns false.
func (s *Store) eachPiece(ctx context.Context, id, kind string, each func(piece) bool) error {
	err := s.bucket.Each(ctx, directory(id)+kind, func(o storage.Object) bool {
		p, ok := pieceOf(o, kind)
		return !ok || each(p)
	})
	if err != nil {
		return fmt.Errorf("listing stream %q: %w", id, err)
	}
	return nil
}

func pieceOf(o storage.Object, kind string) (piece, bool) {
	r, ok := parseSpan(o.Name)
	if !ok || kind == "data" && r.Len() > MaxWrite || kind == "joined" && r.Len() > MaxJoined {
		return piece{}, false
	}
	p := piece{Range: r, object: r, dropped: kind == "drop", joined: kind == "joined", written: o.Written, size: o.Size}
	if p.joined {
		p.written = o.Written.Add(-settled) // what is in it is older
	}
	return p, true
}

// before says which of two pieces counts where they overlap.
func (p piece) before(q piece) bool {
	if p.joined && p.object.Len() != q.object.Len() {
		return p.object.Len() > q.object.Len() // they have the same bytes, and this one stays
	}
	if !p.written.Equal(q.written) {
		return p.written.Before(q.written)
	}
	return strings.Compare(span(p.object), span(q.object)) < 0
}

// byPriority is a heap of pieces, with the one at its top that counts.
type byPriority []piece

func (h *byPriority) Len() int           { return len(*h) }
func (h *byPriority) Less(i, j int) bool { return (*h)[i].before((*h)[j]) }
func (h *byPriority) Swap(i, j int)      { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }
func (h *byPriority) Push(x any)         { *h = append(*h, x.(piece)) }
func (h *byPriority) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// firstOf cuts pieces, so that each byte is in the one that counts. It sweeps over
// their beginnings: with n pieces, in the order of n log n.
func firstOf(pieces []piece) (cut []piece) {
	slices.SortFunc(pieces, func(a, b piece) int { return cmp.Compare(a.From, b.From) })
	var here byPriority
	var at int64
	for i := 0; i < len(pieces) || len(here) > 0; {
		if len(here) == 0 {
			at = max(at, pieces[i].From)
		}
		for ; i < len(pieces) && pieces[i].From <= at; i++ {
			heap.Push(&here, pieces[i])
		}
		if here[0].To <= at {
			heap.Pop(&here)
			continue
		}
		p := here[0]
		p.From = at
		if i < len(pieces) {
			p.To = min(p.To, pieces[i].From)
		}
		at = p.To
		if last := len(cut) - 1; last >= 0 && cut[last].object == p.object && cut[last].To == p.From {
			cut[last].To = p.To
		} else {
			cut = append(cut, p)
		}
	}
	return cut
}

// union joins pieces that overlap.
func union(pieces []piece) (joined []piece) {
	slices.SortFunc(pieces, func(a, b piece) int { return cmp.Compare(a.From, b.From) })
	for _, p := range pieces {
		last := len(joined) - 1
		switch {
		case p.Len() <= 0:
		case last >= 0 && p.From <= joined[last].To:
			joined[last].To = max(joined[last].To, p.To)
			if p.written.Before(joined[last].written) {
				joined[last].written = p.written
			}
		default:
			joined = append(joined, p)
		}
	}
	return joined
}

// unless merges data with what of the drops isn't data.
func unless(data, drops []piece) (all []piece) {
	for _, d := range data {
		for len(drops) > 0 && drops[0].From < d.From {
			head := drops[0]
			head.To = min(head.To, d.From)
			all = append(all, head)
			if drops[0].From = head.To; drops[0].Len() > 0 {
				break
			}
			drops = drops[1:]
		}
		for len(drops) > 0 && drops[0].To <= d.To {
			drops = drops[1:]
		}
		if len(drops) > 0 {
			drops[0].From = max(drops[0].From, d.To)
		}
		all = append(all, d)
	}
	return append(all, drops...)
}

// holding is the index of the piece that has an offset, or else that of the next.
func (l *layout) holding(at int64) (i int, found bool) {
	return slices.BinarySearchFunc(l.known, at, func(p piece, at int64) int {
		switch {
		case p.To <= at:
			return -1
		case p.From > at:
			return 1
		default:
			return 0
		}
	})
}

// gap is the range from an offset, of which nothing is known, to something that
// is, and when the first came of all that is behind it. Without anything, it is empty.
func (l *layout) gap(at int64) (r Range, since time.Time) {
	r = Range{at, at}
	next, _ := l.holding(at)
	switch {
	case next < len(l.known):
		r.To = l.known[next].From
	case l.complete:
		r.To = l.total
	}
	return r, l.earliest[next]
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

// State looks at a stream that there is.
func (s *Store) State(ctx context.Context, id string) (State, error) {
	l, err := s.see(ctx, id, time.Now())
	if err != nil {
		return State{}, err
	}
	defer l.release()
	if err := s.hold.take(perTold * int64(len(l.known))); err != nil {
		return State{}, err
	}
	state := State{Total: l.total, Complete: l.complete}
	var at int64
	for _, p := range l.known {
		state.Missing = state.Missing.With(Range{at, p.From})
		if at = p.To; p.dropped {
			state.Dropped = state.Dropped.With(p.Range)
		} else {
			state.Stored = state.Stored.With(p.Range)
		}
	}
	if l.complete {
		state.Missing = state.Missing.With(Range{at, l.total})
	}
	return state, nil
}
