// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// patience is how long readers wait for bytes before some that are there: they
// may be on their way.
const patience = 30 * time.Second

// ErrNotYet says that a stream may go on: whoever follows it asks again.
var ErrNotYet = errors.New("there is no more yet")

// A Part is what a reader gets at a time.
type Part struct {
	Range
	// Data is nil for bytes that were dropped, or didn't come in time.
	Data []byte
	// Dropped are those of which their sender said so.
	Dropped bool
}

// A Reader reads a stream from an offset on. It may be read from another replica
// at the offset where this one stopped.
type Reader struct {
	store  *Store
	id     string
	at     int64
	layout *layout
	now    func() time.Time
}

// Reader begins at an offset, in bytes.
func (s *Store) Reader(ctx context.Context, id string, from int64) (*Reader, error) {
	if _, err := s.Source(ctx, id); err != nil {
		return nil, err
	}
	return &Reader{store: s, id: id, at: from, now: time.Now}, nil
}

// Next returns what comes next: io.EOF at the end of a stream that is complete,
// ErrNotYet at that of another.
func (r *Reader) Next(ctx context.Context) (Part, error) {
	part, err := r.next(ctx)
	if errors.Is(err, ErrNotYet) {
		// What was looked at is old.
		if r.layout, err = r.store.layout(ctx, r.id); err == nil {
			part, err = r.next(ctx)
		}
	}
	if err == nil {
		r.at = part.To
	}
	return part, err
}

func (r *Reader) next(ctx context.Context) (Part, error) {
	l := r.layout
	if l == nil {
		return Part{}, ErrNotYet
	}
	if l.complete && r.at >= l.total {
		return Part{}, io.EOF
	}
	if i := holding(l.stored, r.at, func(p piece) Range { return p.Range }); i >= 0 {
		return r.read(ctx, l.stored[i])
	}
	if i := holding(l.dropped, r.at, func(d Range) Range { return d }); i >= 0 {
		return Part{Range: Range{r.at, l.dropped[i].To}, Dropped: true}, nil
	}
	// Neither came nor was dropped.
	next := l.after(r.at)
	if next < 0 || !l.complete && r.now().Sub(l.written) < patience {
		return Part{}, ErrNotYet
	}
	return Part{Range: Range{r.at, next}}, nil
}

// holding is the index of the range that has an offset, or -1.
func holding[T any](list []T, at int64, rangeOf func(T) Range) int {
	i, found := slices.BinarySearchFunc(list, at, func(x T, at int64) int {
		r := rangeOf(x)
		switch {
		case r.To <= at:
			return -1
		case r.From > at:
			return 1
		default:
			return 0
		}
	})
	if !found {
		return -1
	}
	return i
}

// after is the first offset after at of which something is known, or -1.
func (l *layout) after(at int64) int64 {
	next := int64(-1)
	consider := func(offset int64) {
		if offset > at && (next < 0 || offset < next) {
			next = offset
		}
	}
	if l.complete {
		consider(l.total)
	}
	for _, known := range []Ranges{l.have, l.dropped} {
		i, _ := slices.BinarySearchFunc(known, at, func(r Range, at int64) int { return cmp.Compare(r.From, at) })
		if i < len(known) {
			consider(known[i].From)
		}
	}
	return next
}

func (r *Reader) read(ctx context.Context, p piece) (Part, error) {
	part := Part{Range: Range{r.at, p.To}}
	data, err := r.store.read(ctx, r.id, p.object)
	if err != nil {
		return part, fmt.Errorf("reading bytes %d to %d of stream %q: %w", r.at, p.To-1, r.id, err)
	}
	part.Data = data[r.at-p.object.From : p.To-p.object.From]
	return part, nil
}

// read returns what an object has.
func (s *Store) read(ctx context.Context, id string, object Range) ([]byte, error) {
	member, err := s.bucket.Read(ctx, directory(id)+"data/"+span(object))
	if err != nil {
		return nil, err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(member))
	if err != nil {
		return nil, err
	}
	data := make([]byte, object.Len())
	if _, err := io.ReadFull(unpacked, data); err != nil {
		return nil, err
	}
	// Only then is its checksum looked at.
	if n, err := unpacked.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		return nil, errors.Join(errors.New("the object has more than its name says"), err)
	}
	return data, nil
}
