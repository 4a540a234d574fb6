// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/retries"
	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/times"
)

// gapWait is how long followers wait for missing bytes after bytes behind them have come.
const gapWait = retries.Late

// ErrNotYet says that a stream has no more bytes yet, but may get some. Followers call
// Next again.
var ErrNotYet = errors.New("the stream has no more bytes yet")

// A Part is a range of a stream with one state.
type Part struct {
	Range
	// Data is nil for bytes that were dropped or deleted, or are missing.
	Data []byte
	// Dropped says that the sender has marked the bytes as dropped.
	Dropped bool
	// Deleted says that the bytes were trimmed, because of their age or of the quota.
	Deleted bool
	// Times are the times at which the data was printed, the first mark at its first byte.
	// If the sender didn't send any, it is the time at which the data was stored.
	Times []times.Mark
}

// A Reader reads a stream from an offset on. To continue at another replica, begin there
// at the offset where this reader has stopped.
type Reader struct {
	store    *Store
	id       string
	at       int64
	layout   *sharedLayout // from a listing until Next returns an error
	layoutAt time.Time     // when this reader got the layout
	listedAt time.Time     // when the last listing began
	object   Range         // the range of the object that was read last
	data     []byte        // the content of that object
	times    []times.Mark
	joined   *joinedObject // the joined object that was read last
	now      func() time.Time

	joinedMemory int64 // the memory that joined holds, in bytes
	follows      bool
	// hasAll says that a listing of the whole stream, made at wholeAt, had nothing behind the
	// reader's offset. From then on a follower lists only what is.
	hasAll  bool
	wholeAt time.Time
	// end is where a span ends, or noOffset. isMidLine says that the last part ended within a
	// line.
	end       int64
	isMidLine bool
}

// wholeEvery is how often a follower lists the whole stream while nothing comes: markers
// aren't in its tail.
const wholeEvery = 15 * time.Second

// maxLayoutAge bounds the age of a layout from which bytes are reported as missing.
const maxLayoutAge = time.Second

// maxRelists bounds how often a reader lists a stream again because an object is gone. An
// object is deleted minutes after it was joined, and a listing takes a minute at most.
const maxRelists = 3

// Reader returns a reader of an existing stream from an offset on. Callers that stop
// before Next has returned an error must call Close.
func (s *Store) Reader(id string, from int64) *Reader {
	return &Reader{store: s, id: id, at: from, now: time.Now, end: noOffset}
}

// Follower is Reader for callers that wait for the end of the stream. It waits for missing
// bytes even after the end has come, because a client may have sent them at the same time.
func (s *Store) Follower(id string, from int64) *Reader {
	r := s.Reader(id, from)
	r.follows = true
	return r
}

// Close releases the memory that the reader holds. Next may still be called after it.
func (r *Reader) Close() {
	if r.layout != nil {
		r.layout.release()
	}
	r.layout = nil
	r.drop()
}

// look gets a layout whose listing began after a time.
func (r *Reader) look(ctx context.Context, from int64, after time.Time) (err error) {
	if r.layout != nil {
		r.layout.release()
	}
	if r.layout, err = r.store.layoutSince(ctx, r.id, from, after); err == nil {
		r.listedAt = r.layout.began
	}
	return err
}

// lookAtTail returns the next part if it is in the tail, or else ErrNotYet. whole says that
// the whole stream has to be listed.
func (r *Reader) lookAtTail(ctx context.Context, after time.Time) (part Part, whole bool, err error) {
	if !r.hasAll || r.now().Sub(r.wholeAt) >= wholeEvery {
		return part, true, ErrNotYet
	}
	if err := r.look(ctx, r.at, after); err != nil {
		return part, false, err
	}
	part, err = r.next(ctx)
	l := r.layout
	isGap := l.complete || len(l.known) > 0 && l.known[len(l.known)-1].To > r.at
	return part, errors.Is(err, ErrNotYet) && isGap || errors.Is(err, storage.ErrNotFound), err
}

// noteWhole notes what a listing of the whole stream has found.
func (r *Reader) noteWhole(err error) {
	if l := r.layout; l != nil && !l.isTail {
		gap, _ := l.gap(r.at)
		r.hasAll = r.follows && errors.Is(err, ErrNotYet) && gap.Len() <= 0
		r.wholeAt = r.now()
	}
}

// Next returns the next part. At the end of a stream, the error is io.EOF if the stream
// is complete or its span is over, and ErrNotYet if not. After an error, the reader holds no
// memory.
func (r *Reader) Next(ctx context.Context) (Part, error) {
	part, err := Part{}, io.EOF
	if !r.isAtEnd() {
		part, err = r.nextOrList(ctx)
	}
	if err != nil {
		r.Close()
		return part, err
	}
	part = r.cutAtEnd(part)
	r.at = part.To
	return part, nil
}

// nextOrList returns the next part, by the layout that the reader has or by a new one.
func (r *Reader) nextOrList(ctx context.Context) (Part, error) {
	part, err := Part{}, ErrNotYet
	if r.layout != nil {
		if part, err = r.next(ctx); errors.Is(err, ErrNotYet) && r.hasJustListed() {
			r.noteWhole(err)
			return part, err
		}
	}
	// A first listing has everything up to now, a follower's may be a little older.
	after, relist := time.Now(), errors.Is(err, ErrNotYet)
	if relist && !r.listedAt.IsZero() {
		after = latest(r.listedAt, after.Add(-layoutSharedFor))
	}
	if relist && r.follows {
		part, relist, err = r.lookAtTail(ctx, after)
	}
	relist = relist || err == nil && part.Data == nil && r.now().Sub(r.layoutAt) > maxLayoutAge // it may not be missing any more
	// Objects that were joined since the listing are in other objects now.
	for tries := 0; relist || errors.Is(err, storage.ErrNotFound) && tries < maxRelists; tries++ {
		relist, r.layoutAt = false, r.now()
		if err = r.look(ctx, wholeStream, after); err == nil {
			part, err = r.next(ctx)
			r.noteWhole(err)
		}
		after = time.Now()
	}
	return part, err
}

// hasJustListed reports whether a follower needn't list again yet.
func (r *Reader) hasJustListed() bool {
	return r.follows && time.Since(r.listedAt) < layoutSharedFor
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
	if i, found := l.find(r.at); found {
		p := l.known[i]
		if p.hasData() {
			return r.read(ctx, p)
		}
		return Part{Range: Range{r.at, p.To}, Dropped: p.dropped, Deleted: p.deleted}, nil
	}
	if l.isTail {
		return Part{}, ErrNotYet
	}
	gap, since := l.gap(r.at)
	isDefinite := l.complete && !r.follows
	if gap.Len() <= 0 || !isDefinite && r.now().Sub(since) < gapWait {
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
	r.layout.redacted.mask(part.From, part.Data)
	part.Times = times.Cut(r.times, part.From, part.To)
	return part, nil
}

// load reads the object that has the next byte, and returns up to which offset the object
// has the bytes of the piece.
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
	m := r.joined.memberAt(r.at)
	if r.object != m.object || r.data == nil {
		err = r.unpack(m.object, m.written, m.content)
	}
	return m.counts.To, err
}

// drop releases the objects that were read last.
func (r *Reader) drop() {
	r.joined, r.joinedMemory = nil, 0
	r.object, r.data, r.times = Range{}, nil, nil
	r.store.hold.shrinkTo(0)
}

func (r *Reader) loadData(ctx context.Context, p piece) error {
	if err := r.store.hold.take(p.size); err != nil {
		return err
	}
	content, err := r.store.bucket.Read(ctx, directory(r.id)+p.key())
	if err != nil {
		return err
	}
	return r.unpack(p.object, p.written, content)
}

func (r *Reader) loadJoined(ctx context.Context, p piece) error {
	if err := r.store.hold.take(p.size + unpackIndexMemory); err != nil {
		return err
	}
	j, err := r.store.readJoined(ctx, r.id, p)
	if err != nil {
		return err
	}
	r.joined, r.joinedMemory = j, p.size+perIndexEntry*int64(cap(j.entries))
	r.store.hold.shrinkTo(r.joinedMemory)
	return nil
}

// unpack decompresses a gzip member. Bytes without times get the time of the write.
func (r *Reader) unpack(object Range, written time.Time, member []byte) error {
	r.object, r.data, r.times = Range{}, nil, nil
	if err := r.store.hold.take(object.Len() + perTimeMark*times.Most); err != nil {
		return err
	}
	data := make([]byte, object.Len())
	extra, err := new(inflater).inflate(data, member)
	if err != nil {
		return err
	}
	marks := times.Decode(extra, object.From, object.To)
	if marks == nil {
		marks = []times.Mark{{At: object.From, Time: written.UnixMilli()}}
	}
	r.object, r.data, r.times = object, data, marks
	r.store.hold.shrinkTo(r.joinedMemory + object.Len() + perTimeMark*int64(len(marks)))
	return nil
}
