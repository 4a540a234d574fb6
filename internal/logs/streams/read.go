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

	"github.com/entrypointer/entrypointer/internal/logs/storage"
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
	layout *shared   // held from a look until there is no more
	looked time.Time // when the layout was made
	seen   time.Time // when the last look began
	object Range     // what was read last
	data   []byte    // what is in it
	times  []times.Mark
	joined *joined // the one that was read last
	now    func() time.Time

	forJoined int64 // of the store's hold, in bytes
}

// fresh is how old a layout may be by which bytes are said not to have come.
const fresh = time.Second

// lookTries is how often a reader looks again where an object has gone: it is
// deleted minutes after it was joined, and listed for one at most.
const lookTries = 3

// Reader begins at an offset of a stream that there is, in bytes. Who doesn't read it
// until Next returns an error closes it.
func (s *Store) Reader(id string, from int64) *Reader {
	return &Reader{store: s, id: id, at: from, now: time.Now}
}

// Close gives up what the reader holds. It may be read on.
func (r *Reader) Close() {
	if r.layout != nil {
		r.layout.release()
	}
	r.layout = nil
	r.drop()
}

// look has a layout that is made after a time.
func (r *Reader) look(ctx context.Context, after time.Time) (err error) {
	if r.layout != nil {
		r.layout.release()
	}
	if r.layout, err = r.store.see(ctx, r.id, after); err == nil {
		r.seen = r.layout.began
	}
	return err
}

// Next returns what comes next: io.EOF at the end of a stream that is complete,
// ErrNotYet at that of another. With an error, the reader holds nothing.
func (r *Reader) Next(ctx context.Context) (Part, error) {
	part, err := Part{}, ErrNotYet
	if r.layout != nil {
		part, err = r.next(ctx)
	}
	// A reader sees all that was there when it began, a follower what came since.
	after := time.Now()
	if errors.Is(err, ErrNotYet) && !r.seen.IsZero() {
		after = latest(r.seen, after.Add(-sharedFor))
	}
	notThere := err == nil && part.Data == nil && r.now().Sub(r.looked) > fresh
	// What was joined since is elsewhere.
	for tries := 0; errors.Is(err, ErrNotYet) && tries == 0 || notThere || errors.Is(err, storage.ErrNotFound) && tries < lookTries; tries++ {
		notThere, r.looked = false, r.now()
		if err = r.look(ctx, after); err == nil {
			part, err = r.next(ctx)
		}
		after = time.Now()
	}
	if err != nil {
		r.Close()
		return part, err
	}
	r.at = part.To
	return part, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
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
	to, err := r.load(ctx, p)
	part := Part{Range: Range{r.at, min(p.To, to)}}
	if err != nil {
		return part, fmt.Errorf("reading bytes %d to %d of stream %q: %w", r.at, p.To-1, r.id, err)
	}
	part.Data = r.data[r.at-r.object.From : part.To-r.object.From]
	part.Times = times.Cut(r.times, part.From, part.To)
	return part, nil
}

// load has what was written at once there, of which a piece has the bytes up to an offset.
func (r *Reader) load(ctx context.Context, p piece) (to int64, err error) {
	if !p.joined {
		if r.object != p.object {
			r.drop()
			err = r.loadData(ctx, p)
		}
		return p.To, err
	}
	if r.joined == nil || r.joined.name != p.object {
		r.drop()
		if err := r.loadJoined(ctx, p); err != nil {
			return 0, err
		}
	}
	m := r.joined.holding(r.at)
	if r.object != m.object || r.data == nil {
		err = r.unpack(m.object, m.written, m.content)
	}
	return m.counts.To, err
}

// drop gives up what was read last.
func (r *Reader) drop() {
	r.joined, r.forJoined = nil, 0
	r.object, r.data, r.times = Range{}, nil, nil
	r.store.hold.keep(0)
}

func (r *Reader) loadData(ctx context.Context, p piece) error {
	if err := r.store.hold.take(p.size); err != nil {
		return err
	}
	content, err := r.store.bucket.Read(ctx, directory(r.id)+"data/"+span(p.object))
	if err != nil {
		return err
	}
	return r.unpack(p.object, p.written, content)
}

func (r *Reader) loadJoined(ctx context.Context, p piece) error {
	if err := r.store.hold.take(p.size + unpacking); err != nil {
		return err
	}
	j, err := r.store.joined(ctx, r.id, p.object)
	if err != nil {
		return err
	}
	r.joined, r.forJoined = j, p.size+perEntry*int64(cap(j.entries))
	r.store.hold.keep(r.forJoined)
	return nil
}

// unpack keeps what a member has. What says no time came when it was written.
func (r *Reader) unpack(object Range, written time.Time, member []byte) error {
	r.object, r.data, r.times = Range{}, nil, nil
	if err := r.store.hold.take(object.Len() + perMark*times.Most); err != nil {
		return err
	}
	data, marks, err := unpack(object, member)
	if err != nil {
		return err
	}
	if marks == nil {
		marks = []times.Mark{{At: object.From, Time: written.UnixMilli()}}
	}
	r.object, r.data, r.times = object, data, marks
	r.store.hold.keep(r.forJoined + object.Len() + perMark*int64(len(marks)))
	return nil
}

// unpack returns what a member has, and when that came, if it says so.
func unpack(object Range, member []byte) ([]byte, []times.Mark, error) {
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
