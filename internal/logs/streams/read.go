// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/times"
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
	// Times say when the data came, the first mark at its first byte. If the sender
	// didn't say, it is when they were stored.
	Times []times.Mark
}

// A Reader reads a stream from an offset on. It may be read from another replica
// at the offset where this one stopped.
type Reader struct {
	store  *Store
	id     string
	at     int64
	layout *layout
	looked time.Time // when the layout was made
	object Range     // what was read last
	data   []byte    // what is in it
	times  []times.Mark
	now    func() time.Time
}

// fresh is how old a layout may be by which bytes are said not to have come.
const fresh = time.Second

// Reader begins at an offset of a stream that there is, in bytes.
func (s *Store) Reader(id string, from int64) *Reader {
	return &Reader{store: s, id: id, at: from, now: time.Now}
}

// Next returns what comes next: io.EOF at the end of a stream that is complete,
// ErrNotYet at that of another.
func (r *Reader) Next(ctx context.Context) (Part, error) {
	part, err := Part{}, ErrNotYet
	if r.layout != nil {
		part, err = r.next(ctx)
	}
	notThere := err == nil && part.Data == nil && r.now().Sub(r.looked) > fresh
	if errors.Is(err, ErrNotYet) || notThere {
		r.looked = r.now()
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
	if l.complete && r.at >= l.total {
		return Part{}, io.EOF
	}
	if i, found := l.holding(r.at); found {
		if p := l.known[i]; !p.dropped {
			return r.read(ctx, p)
		}
		return Part{Range: Range{r.at, l.known[i].To}, Dropped: true}, nil
	}
	gap, since := l.gap(r.at)
	if gap.Len() <= 0 || r.now().Sub(since) < patience {
		return Part{}, ErrNotYet
	}
	return Part{Range: gap}, nil
}

func (r *Reader) read(ctx context.Context, p piece) (Part, error) {
	part := Part{Range: Range{r.at, p.To}}
	if r.object != p.object {
		data, marks, err := r.store.read(ctx, r.id, p.object)
		if err != nil {
			return part, fmt.Errorf("reading bytes %d to %d of stream %q: %w", r.at, p.To-1, r.id, err)
		}
		if marks == nil {
			marks = []times.Mark{{At: p.object.From, Time: p.written.UnixMilli()}}
		}
		r.object, r.data, r.times = p.object, data, marks
	}
	part.Data = r.data[r.at-p.object.From : p.To-p.object.From]
	part.Times = times.Cut(r.times, part.From, part.To)
	return part, nil
}

// read returns what an object has, and when it came, if that is known.
func (s *Store) read(ctx context.Context, id string, object Range) ([]byte, []times.Mark, error) {
	member, err := s.bucket.Read(ctx, directory(id)+"data/"+span(object))
	if err != nil {
		return nil, nil, err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(member))
	if err != nil {
		return nil, nil, err
	}
	marks := times.Decode(unpacked.Extra, object.From, object.To)
	data := make([]byte, object.Len())
	if _, err := io.ReadFull(unpacked, data); err != nil {
		return nil, nil, err
	}
	// Only then is its checksum looked at.
	if n, err := unpacked.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		return nil, nil, errors.Join(errors.New("the object has more than its name says"), err)
	}
	return data, marks, nil
}
