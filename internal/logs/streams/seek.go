// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"math"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/times"
)

// A span of time is found in a stream by a binary search over its objects, whose members have
// the times at which their bytes were printed. So an hour of a month takes a listing and some
// ten objects, and nothing is stored for it.
//
// The time at which bytes were printed is that of the node's clock, which can be set back or
// be wrong for a while. The time at which they were stored is that of the storage's clock,
// and later than the true time of printing. So bytes are left out only if both say so: they
// are before the span if they were printed and stored before it, and after the span if they
// were printed and stored after it. What is read is more than the span, and has the time of
// each line.

// maxLineRest bounds the rest of the line that is read behind a span, in bytes.
const maxLineRest = 1 << 20

// noOffset stands for an offset that there isn't.
const noOffset = -1

// Seek moves the reader forward to the bytes of a span, and bounds it by the end of the span.
// At this bound, Next returns io.EOF. The first line may be the end of one that began before
// the span; its time is then before the span, too. The last line is whole, unless more than
// maxLineRest of it is behind the span.
func (r *Reader) Seek(ctx context.Context, span Span) error {
	if span.IsAll() {
		return nil
	}
	for tries := 0; ; tries++ {
		err := r.seek(ctx, span)
		if err == nil {
			return nil
		}
		r.Close()
		if !errors.Is(err, storage.ErrNotFound) || tries == maxRelists {
			return err
		}
	}
}

func (r *Reader) seek(ctx context.Context, span Span) error {
	r.layoutAt = r.now()
	if err := r.look(ctx, wholeStream, time.Now()); err != nil {
		return err
	}
	s := &seeker{Reader: r, span: span, known: r.layout.known, probed: map[int]bounds{}}
	first, _ := r.layout.find(r.at)
	begin, from := first, r.at
	if !span.Since.IsZero() {
		var err error
		if begin, err = s.search(ctx, first, math.MaxInt, s.begins); err != nil {
			return err
		}
		if from, err = s.from(ctx, first, begin); err != nil {
			return err
		}
	}
	if !span.Until.IsZero() {
		over, err := s.search(ctx, begin, 1, s.isOver) // most spans are short
		if err != nil {
			return err
		}
		if r.end, err = s.to(ctx, begin, over); err != nil {
			return err
		}
		if r.end != noOffset {
			r.end = max(r.end, from)
		}
	}
	r.at, r.isMidLine = from, false
	return nil
}

// A seeker searches the pieces of a layout for a span.
type seeker struct {
	*Reader
	span   Span
	known  []piece
	probed map[int]bounds // by the index of the piece
}

// bounds say which part of a piece is in a span, in offsets.
type bounds struct {
	begin  int64 // of the first bytes that are in the span or after it, or noOffset
	before int64 // of the last bytes before these, or noOffset
	over   int64 // of the first bytes that are after the span, as all behind them are, or the end of the piece
}

// search returns the index of the first piece with data, from one on, for which is holds, or
// else the number of pieces. It first looks at that many pieces in steps that double.
func (s *seeker) search(ctx context.Context, low, step int, is func(context.Context, int) (bool, error)) (int, error) {
	high := len(s.known)
	for low < high {
		middle := low + min((high-low)/2, step-1)
		if step < math.MaxInt/2 {
			step *= 2
		}
		at := middle
		for at >= low && !s.known[at].hasData() {
			at--
		}
		if at < low {
			low = middle + 1
			continue
		}
		found, err := is(ctx, at)
		switch {
		case err != nil:
			return 0, err
		case found:
			high = at
		default:
			low = middle + 1
		}
	}
	return low, nil
}

// begins reports whether a piece has bytes that are in the span or after it.
func (s *seeker) begins(ctx context.Context, at int) (bool, error) {
	if p := s.known[at]; !p.joined && s.span.begins(p.written.UnixMilli()) {
		return true, nil // without looking into it
	}
	b, err := s.probe(ctx, at)
	return b.begin != noOffset, err
}

// isOver reports whether all bytes of a piece are after the span.
func (s *seeker) isOver(ctx context.Context, at int) (bool, error) {
	if !s.span.isOver(s.known[at].written.UnixMilli()) {
		return false, nil // the members of a joined object were stored even earlier
	}
	b, err := s.probe(ctx, at)
	return b.over <= s.known[at].From, err
}

// from returns the offset of the last bytes before the piece at which the span begins, or in
// this piece, that are before the span: the first line of the span may begin there.
func (s *seeker) from(ctx context.Context, first, begin int) (int64, error) {
	for at := begin; at >= first; at-- {
		if at == len(s.known) || !s.known[at].hasData() {
			continue
		}
		b, err := s.probe(ctx, at)
		if err != nil {
			return 0, err
		}
		if b.before != noOffset {
			return max(b.before, s.at), nil
		}
	}
	return s.at, nil
}

// to returns the offset at which the span ends, noOffset if it doesn't end in the stream.
func (s *seeker) to(ctx context.Context, begin, over int) (int64, error) {
	for at := over - 1; at >= begin; at-- {
		p := s.known[at]
		if !p.hasData() {
			continue
		}
		if s.span.isOver(p.written.UnixMilli()) {
			b, err := s.probe(ctx, at)
			if err != nil {
				return 0, err
			}
			if b.over < p.To {
				return b.over, nil
			}
		}
		break
	}
	if over == len(s.known) {
		return noOffset, nil
	}
	return s.known[over].From, nil
}

// probe looks into the object of a piece.
func (s *seeker) probe(ctx context.Context, at int) (bounds, error) {
	if b, is := s.probed[at]; is {
		return b, nil
	}
	p := s.known[at]
	b := bounds{noOffset, noOffset, p.To}
	last := int64(noOffset) // of the marks so far
	err := s.eachMark(ctx, p, func(m times.Mark, written int64) {
		if b.begin == noOffset && s.span.begins(max(m.Time, written)) {
			b.begin, b.before = m.At, last
		}
		switch {
		case !s.span.isOver(min(m.Time, written)):
			b.over = p.To
		case b.over == p.To:
			b.over = m.At
		}
		last = m.At
	})
	if b.begin == noOffset {
		b.before = last
	}
	if err == nil {
		s.probed[at] = b
	}
	return b, err
}

// eachMark calls each for the times of a piece, with the time at which the bytes were stored,
// in Unix milliseconds.
func (r *Reader) eachMark(ctx context.Context, p piece, each func(m times.Mark, written int64)) error {
	if !p.joined {
		if r.object != p.object || r.data == nil {
			r.drop()
			if err := r.loadData(ctx, p); err != nil {
				return err
			}
		}
		for _, m := range times.Cut(r.times, p.From, p.To) {
			each(m, p.written.UnixMilli())
		}
		return nil
	}
	if r.joined == nil || r.joined.name != p.object {
		r.drop()
		if err := r.loadJoined(ctx, p); err != nil {
			return err
		}
	}
	if err := r.store.hold.take(perTimeMark * times.Most); err != nil {
		return err
	}
	defer r.store.hold.shrinkTo(r.joinedMemory)
	r.object, r.data, r.times = Range{}, nil, nil // their memory is given back
	for at := p.From; at < p.To; {
		member := r.joined.memberAt(at)
		marks, err := member.times()
		if err != nil {
			return err
		}
		for _, m := range times.Cut(marks, at, min(member.counts.To, p.To)) {
			each(m, member.written.UnixMilli())
		}
		at = member.counts.To
	}
	return nil
}

// times returns the times of a member from its header, or else the time of the write.
func (m member) times() ([]times.Mark, error) {
	header, err := gzip.NewReader(bytes.NewReader(m.content))
	if err != nil {
		return nil, err
	}
	marks := times.Decode(header.Extra, m.object.From, m.object.To)
	if marks == nil {
		marks = []times.Mark{{At: m.object.From, Time: m.written.UnixMilli()}}
	}
	return marks, nil
}

// isAtEnd reports whether the span of the reader is over, and its last line as well.
func (r *Reader) isAtEnd() bool {
	return r.end != noOffset && r.at >= r.end && (!r.isMidLine || r.at >= r.end+maxLineRest)
}

// cutAtEnd cuts a part at the end of the line that is behind the end of the span.
func (r *Reader) cutAtEnd(p Part) Part {
	if r.end != noOffset && p.Data != nil && p.To > r.end {
		after := max(r.end-p.From, 0)
		if after > 0 && p.Data[after-1] == '\n' {
			p.To = r.end
		} else if line := bytes.IndexByte(p.Data[after:], '\n'); line >= 0 {
			p.To = p.From + after + int64(line) + 1
		}
		p.Data, p.Times = p.Data[:p.Len()], times.Cut(p.Times, p.From, p.To)
	}
	r.isMidLine = len(p.Data) > 0 && p.Data[len(p.Data)-1] != '\n'
	return p
}
