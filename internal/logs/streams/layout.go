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
// Where objects overlap, the one that was written first wins; of those with the same time,
// the first by name. Settled objects are joined (tidy.go), and joined objects win over
// others. Stored bytes win over markers, whatever was written first. So neither the order
// nor the repetition of requests matters. What was trimmed wins over everything. Readers mask
// what is redacted, whatever object has it (redact.go).
type layout struct {
	known        []piece     // sorted and disjoint
	earliestFrom []time.Time // by piece, and for the end: the first write from there on
	redacted     Ranges
	total        int64 // the length, if complete
	complete     bool
	ended        time.Time // when the end was written
	// isTail says that it has only the data objects from an offset on. Gaps in it may be none.
	isTail bool
}

// A piece is the part of an object that wins.
type piece struct {
	Range
	object  Range // the range of the whole object
	dropped bool
	deleted bool // trimmed at the front of the stream
	joined  bool
	written time.Time
	size    int64 // of the object as stored
	mask    *mask // nil unless the object was rewritten
}

// A view has the objects of a stream by kind. Those in no directory of their own are on
// top.
type view struct {
	drops, data, joined, redacts, trims []piece
	claims, top                         []storage.Object
}

const (
	// settleTime is how long after a write no object with an earlier time can appear any
	// more, by the storage's clock. After it, the winner for a byte doesn't change.
	settleTime = 5 * time.Minute
	// listTimeout bounds the listing of a stream. Objects are kept for joinedDelay after
	// they were joined, so that each listing finds either them or the joined object.
	listTimeout, joinedDelay = time.Minute, 5 * time.Minute
)

// errListTimeout is the error of a listing that takes longer than listTimeout.
var errListTimeout = errors.New("listing a stream took too long")

// eachObject lists a stream by one listing. The kind is the directory of an object, "" for
// those on top.
//
// The kinds come in the order of their names: joined objects after the data that they
// replace, then what is redacted, and trims last, so no object is missed that was joined,
// redacted or trimmed meanwhile.
func (s *Store) eachObject(ctx context.Context, id string, each func(kind string, o storage.Object) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errListTimeout)
	defer cancel()
	err := s.bucket.Walk(ctx, directory(id), "", func(o storage.Object) bool {
		kind, name, below := strings.Cut(o.Name, "/")
		if !below {
			return each("", o)
		}
		o.Name = name
		return each(kind, o)
	})
	if err != nil {
		err = fmt.Errorf("listing stream %q: %w", id, err)
	}
	return cmp.Or(err, context.Cause(ctx))
}

// listPieces lists a stream. It takes memory without a bound.
func (s *Store) listPieces(ctx context.Context, id string) (v view, err error) {
	err = s.eachObject(ctx, id, func(kind string, o storage.Object) bool {
		v.add(kind, o)
		return true
	})
	return v, err
}

// pieces returns the list of a kind, nil for a kind whose objects aren't pieces.
func (v *view) pieces(kind string) *[]piece {
	switch kind {
	case "drop":
		return &v.drops
	case "data":
		return &v.data
	case "joined":
		return &v.joined
	case "redact":
		return &v.redacts
	case "trim":
		return &v.trims
	default:
		return nil
	}
}

// add adds an object of a kind.
func (v *view) add(kind string, o storage.Object) {
	switch kind {
	case "":
		v.top = append(v.top, o)
	case "claim":
		v.claims = append(v.claims, o)
	default:
		list := v.pieces(kind)
		if p, ok := pieceOf(o, kind); ok && list != nil {
			*list = append(*list, p)
		}
	}
}

// trimmed returns up to where the stream was trimmed.
func (v *view) trimmed() (to int64) {
	for _, p := range v.trims {
		to = max(to, p.object.To)
	}
	return to
}

// stored returns the winning pieces of data and joined objects.
func (v *view) stored() []piece {
	return mergeDrops(resolveOverlaps(v.joined), resolveOverlaps(v.data))
}

// newLayout lists a stream. The hold keeps the memory of the layout.
//
// An object that is rewritten because of a redaction is deleted at once. A listing of files
// takes names before it looks at them, so it may find neither of the two. The next listing
// finds the later one. So if bytes are missing, the stream is listed again, until they are
// missing in two listings.
func (s *Store) newLayout(ctx context.Context, id string, h *memoryHold) (*layout, error) {
	l, err := s.listLayout(ctx, id, h)
	for tries := 0; err == nil && len(l.redacted) > 0 && tries < maxRelists; tries++ {
		before := l.missing()
		if len(before) == 0 {
			break
		}
		h.shrinkTo(0)
		if l, err = s.listLayout(ctx, id, h); err == nil && !slices.ContainsFunc(l.missing(), func(r Range) bool { return !before.contain(r) }) {
			break
		}
	}
	return l, err
}

// missing returns the unknown bytes before a known one, or before the end.
func (l *layout) missing() (missing Ranges) {
	var at int64
	for _, p := range l.known {
		missing = missing.With(Range{at, p.From})
		at = p.To
	}
	if l.complete {
		missing = missing.With(Range{at, l.total})
	}
	return missing
}

func (s *Store) listLayout(ctx context.Context, id string, h *memoryHold) (*layout, error) {
	l, v := &layout{}, view{}
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errListTimeout)
	defer cancel()
	// The end before everything else, so that nothing is missing which came before it.
	if err := s.readEnd(ctx, id, l); err != nil {
		return nil, err
	}
	if err := s.listForLayout(ctx, id, h, l, &v, "drop", "data", "joined", "redact", "trim"); err != nil {
		return nil, err
	}
	if drops := v.drops; len(drops) > 0 {
		// Markers before data, because stored bytes win over them.
		h.shrinkTo(perListedPiece * int64(len(drops)))
		v = view{drops: drops}
		if err := s.listForLayout(ctx, id, h, l, &v, "data", "joined", "redact", "trim"); err != nil {
			return nil, err
		}
	}
	for _, pieces := range [][]piece{v.drops, v.data, v.joined, v.trims} {
		for i := range pieces {
			if l.complete {
				pieces[i].To = min(pieces[i].To, l.total)
			}
		}
	}
	l.known = slices.Clone(trimFront(mergeDrops(v.stored(), union(v.drops)), union(v.trims))) // without spare capacity
	l.redacted = v.redacted()
	l.earliestFrom = make([]time.Time, len(l.known)+1)
	l.earliestFrom[len(l.known)] = l.ended
	for i, p := range slices.Backward(l.known) {
		if l.earliestFrom[i] = l.earliestFrom[i+1]; l.earliestFrom[i].IsZero() || p.written.Before(l.earliestFrom[i]) {
			l.earliestFrom[i] = p.written
		}
	}
	h.shrinkTo(perLayoutPiece * int64(cap(l.known)+len(v.redacts)+1))
	return l, nil
}

// listForLayout adds the objects of some kinds to a view.
func (s *Store) listForLayout(ctx context.Context, id string, h *memoryHold, l *layout, v *view, kinds ...string) error {
	taken := pieceList{ctx: ctx, hold: h}
	err := s.eachObject(ctx, id, func(kind string, o storage.Object) bool {
		if kind == "" && o.Name == "end" && l.complete {
			l.ended = o.Written
		}
		p, ok := pieceOf(o, kind)
		return !ok || !slices.Contains(kinds, kind) || taken.add(v.pieces(kind), p)
	})
	return cmp.Or(taken.busy, err)
}

// newTail lists the data objects of a stream that begin at an offset or later. What a
// follower has read up to there needn't be listed again.
func (s *Store) newTail(ctx context.Context, id string, from int64, h *memoryHold) (*layout, error) {
	l := &layout{isTail: true}
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errListTimeout)
	defer cancel()
	if err := s.readEnd(ctx, id, l); err != nil {
		return nil, err
	}
	var data []piece
	taken := pieceList{ctx: ctx, hold: h}
	err := s.bucket.Walk(ctx, directory(id)+"data", fmt.Sprintf("%016x", from), func(o storage.Object) bool {
		p, ok := pieceOf(o, "data")
		if l.complete {
			p.To = min(p.To, l.total)
		}
		return !ok || taken.add(&data, p)
	})
	if err != nil {
		err = fmt.Errorf("listing the end of stream %q: %w", id, err)
	}
	l.known = slices.Clone(resolveOverlaps(data)) // without spare capacity
	h.shrinkTo(perLayoutPiece * int64(cap(l.known)+1))
	return l, cmp.Or(taken.busy, err, context.Cause(ctx))
}

func (s *Store) readEnd(ctx context.Context, id string, l *layout) (err error) {
	if l.total, l.complete, err = s.length(ctx, id); err != nil {
		return fmt.Errorf("looking for the end of stream %q: %w", id, err)
	}
	return nil
}

// holdStep is for how many pieces memory is taken at a time.
const holdStep = 64

// A pieceList takes memory for pieces that are listed.
type pieceList struct {
	ctx   context.Context //nolint:containedctx // that of the listing
	hold  *memoryHold
	count int
	busy  error // why there is no memory
}

// add appends a piece to a list, if there is memory for it.
func (l *pieceList) add(list *[]piece, p piece) bool {
	if l.count%holdStep == 0 {
		l.busy = l.hold.grow(l.ctx, holdStep*perListedPiece)
	}
	l.count++
	*list = append(*list, p)
	return l.busy == nil
}

// pieces returns the objects of one kind, in any order.
func (s *Store) pieces(ctx context.Context, id, kind string, h *memoryHold) (list []piece, err error) {
	taken := pieceList{ctx: ctx, hold: h}
	err = s.eachPiece(ctx, id, kind, func(p piece) bool { return taken.add(&list, p) })
	return list, cmp.Or(taken.busy, err)
}

// eachPiece calls each for the objects of one kind until each returns false.
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
	r, ok := parseRangeName(o.Name)
	p := piece{Range: r, object: r, dropped: kind == "drop", deleted: kind == "trim", joined: kind == "joined", written: o.Written, size: o.Size}
	if !ok && (kind == "data" || p.joined) {
		p.object, p.written, p.mask, ok = parseMaskedName(o)
		p.Range = p.object
	} else if p.joined {
		p.written = o.Written.Add(-settleTime) // its content is older
	}
	if !ok || kind == "data" && p.Len() > MaxWrite || p.joined && p.Len() > MaxJoined {
		return piece{}, false
	}
	return p, true
}

// name returns the name of the object.
func (p piece) name() string {
	if p.mask != nil {
		return maskedName(p.object, p.mask.bytes, p.written)
	}
	return rangeName(p.object)
}

// key returns the key of an object with data, below the directory of its stream.
func (p piece) key() string {
	if p.joined {
		return "joined/" + p.name()
	}
	return "data/" + p.name()
}

// isOf reports whether both pieces are of the same object.
func (p piece) isOf(q piece) bool {
	return p.object == q.object && p.joined == q.joined && p.mask == q.mask
}

// hasData reports whether the bytes of the piece are stored.
func (p piece) hasData() bool { return !p.dropped && !p.deleted }

// wins reports whether p wins over q where they overlap.
func (p piece) wins(q piece) bool {
	if p.joined && p.object.Len() != q.object.Len() {
		return p.object.Len() > q.object.Len() // both have the same bytes, and the longer one won't be deleted
	}
	if !p.written.Equal(q.written) {
		return p.written.Before(q.written)
	}
	if p.object == q.object {
		return p.masked() > q.masked()
	}
	return strings.Compare(rangeName(p.object), rangeName(q.object)) < 0
}

// byPriority is a heap of pieces with the winner at the top.
type byPriority []piece

func (h *byPriority) Len() int           { return len(*h) }
func (h *byPriority) Less(i, j int) bool { return (*h)[i].wins((*h)[j]) }
func (h *byPriority) Swap(i, j int)      { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }
func (h *byPriority) Push(x any)         { *h = append(*h, x.(piece)) }
func (h *byPriority) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// resolveOverlaps cuts pieces so that each byte is in the winning one only. It sweeps
// over the pieces by offset: n pieces take O(n log n).
func resolveOverlaps(pieces []piece) (cut []piece) {
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
		if last := len(cut) - 1; last >= 0 && cut[last].isOf(p) && cut[last].To == p.From {
			cut[last].To = p.To
		} else {
			cut = append(cut, p)
		}
	}
	return cut
}

// union merges pieces that overlap or touch.
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

// mergeDrops adds to data the parts of drops that aren't data.
func mergeDrops(data, drops []piece) (all []piece) {
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

// trimFront replaces the pieces at the front by what was trimmed, if anything was.
func trimFront(known, trimmed []piece) []piece {
	for _, t := range trimmed {
		known = slices.DeleteFunc(known, func(p piece) bool { return p.To <= t.To })
		if len(known) > 0 {
			known[0].From = max(known[0].From, t.To)
		}
		known = slices.Insert(known, 0, t)
	}
	return known
}

// find returns the index of the piece with an offset, or else of the next piece.
func (l *layout) find(at int64) (i int, found bool) {
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

// gap returns the unknown range from an offset on, up to the next known byte or the end,
// and the first write behind it. Without a later byte or an end, the range is empty.
func (l *layout) gap(at int64) (r Range, since time.Time) {
	r = Range{at, at}
	next, _ := l.find(at)
	switch {
	case next < len(l.known):
		r.To = l.known[next].From
	case l.complete:
		r.To = l.total
	}
	return r, l.earliestFrom[next]
}

// A State says which bytes of a stream are known.
type State struct {
	Stored  Ranges
	Dropped Ranges
	// Deleted are the bytes at the front that were trimmed, because of their age or of the
	// quota.
	Deleted Ranges
	// Missing are the unknown bytes before a known one, or before the end.
	Missing Ranges
	// Total is the length of the stream, if it is Complete.
	Total    int64
	Complete bool
}

// State returns the state of an existing stream.
func (s *Store) State(ctx context.Context, id string) (State, error) {
	l, err := s.layoutSince(ctx, id, wholeStream, time.Now())
	if err != nil {
		return State{}, err
	}
	defer l.release()
	if err := s.hold.take(perReportedPiece * int64(len(l.known))); err != nil {
		return State{}, err
	}
	state := State{Missing: l.missing(), Total: l.total, Complete: l.complete}
	for _, p := range l.known {
		switch {
		case p.deleted:
			state.Deleted = state.Deleted.With(p.Range)
		case p.dropped:
			state.Dropped = state.Dropped.With(p.Range)
		default:
			state.Stored = state.Stored.With(p.Range)
		}
	}
	return state, nil
}
