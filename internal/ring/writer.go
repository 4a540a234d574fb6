// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ring

import (
	"time"

	"golang.org/x/sys/unix"
)

// A Writer is the supervisor's side.
type Writer struct {
	*Ring
	// What was written, and what has ended, which nobody else can change.
	at     [len(Streams)]int64
	ended  [len(Streams)]bool
	marked [len(Streams)]int64 // how many marks there were
	now    int64               // the time of the last of them, in Unix milliseconds
	clock  func() time.Time
}

// Writer returns the writer of memory that was just created.
func (r *Ring) Writer() *Writer { return &Writer{Ring: r, clock: time.Now} }

// maxRead is how much is read at a time, in bytes: what a pipe holds.
const maxRead = 64 << 10

// ReadFrom reads what a pipe has, up to 64 KiB, and returns how much that was: 0
// if there is nothing. The error is that of read(2).
func (w *Writer) ReadFrom(s Stream, pipe int) (int, error) {
	// To make room for what isn't there would cost bytes.
	available, err := unix.IoctlGetInt(pipe, unix.TIOCINQ)
	if err != nil || available == 0 {
		return 0, err
	}
	available = min(available, maxRead)
	w.makeRoom(s, available)
	n, err := unix.Readv(pipe, w.pieces(s, available))
	if err == unix.EAGAIN { // somebody else has read it
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	w.advance(s, n)
	return n, nil
}

// pieces are where the next bytes of a stream go. All at once, because a pipe may be
// one of packets (O_DIRECT), of which the kernel throws away what isn't read.
func (w *Writer) pieces(s Stream, count int) [][]byte {
	first := w.slots(s, w.at[s])
	if count <= len(first) {
		return [][]byte{first[:count]}
	}
	return [][]byte{first, w.slots(s, 0)[:count-len(first)]}
}

// Write adds bytes of ours.
func (w *Writer) Write(s Stream, data []byte) {
	for len(data) > 0 {
		slots := w.slots(s, w.at[s])
		slots = slots[:min(len(data), len(slots))]
		w.makeRoom(s, len(slots))
		w.advance(s, copy(slots, data))
		data = data[len(slots):]
	}
}

// makeRoom gives up the bytes in whose place others come.
func (w *Writer) makeRoom(s Stream, count int) {
	if floor := w.at[s] + int64(count) - s.capacity(); floor > 0 {
		w.streams[s].floor.Store(floor)
		barrier()
	}
}

func (w *Writer) advance(s Stream, count int) {
	if count > 0 {
		w.mark(s)
	}
	w.at[s] += int64(count)
	w.streams[s].written.Store(w.at[s])
}

// Written is how many bytes of a stream there were until now.
func (w *Writer) Written(s Stream) int64 { return w.at[s] }

// Last returns the bytes of a stream from an offset on, most at most, all of which
// must still be there: not more than the ring keeps before the end.
func (w *Writer) Last(s Stream, from int64, most int) []byte {
	slots := w.slots(s, from)
	return slots[:min(int64(len(slots)), w.at[s]-from, int64(most))]
}

// End says that no more comes of a stream.
func (w *Writer) End(s Stream) {
	w.ended[s] = true
	w.streams[s].ended.Store(1)
}

// ReaderWaits reports whether the reader has to be woken now, and takes for granted
// that it will be.
func (w *Writer) ReaderWaits() bool {
	if w.sleeping.Load() == 0 {
		return false
	}
	for _, s := range Streams {
		h := &w.streams[s]
		if w.at[s] >= h.wakeAt.Load() || w.ended[s] {
			return w.sleeping.Swap(0) != 0
		}
	}
	return false
}

// Done says how far the reader says that it has come, as far as that can be, and
// whether the service knows the end of the stream.
func (w *Writer) Done(s Stream) (p Progress, closed bool) {
	p = w.streams[s].progress()
	p.At = min(max(p.At, 0), w.at[s])
	p.Dropped = min(max(p.Dropped, 0), p.At)
	return p, w.ended[s] && p.At == w.at[s] && w.streams[s].closed.Load() != 0
}
