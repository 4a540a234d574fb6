// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ring

import (
	"time"

	"golang.org/x/sys/unix"
)

// A Writer is the supervisor's side of a ring.
type Writer struct {
	*Ring
	// The writer's own copies, which other processes can't change.
	at        Offsets
	released  Offsets // what the reader sees
	holds     bool    // whether new bytes are released later, see Hold
	ended     [len(Streams)]bool
	markCount [len(Streams)]int64 // the number of marks so far
	floor     [len(Streams)]int64 // the offset of the oldest byte
	lost      [len(Streams)]int64 // the number of bytes that were overwritten before they were read
	lastMark  lastMarks
	cameAt    int64 // see ComesAt, 0 for now
	clock     func() time.Time
}

// Writer returns the writer of a ring from Create.
func (r *Ring) Writer() *Writer { return &Writer{Ring: r, clock: time.Now} }

// MaxPipeRead bounds one read from a pipe, in bytes: the capacity of a pipe.
const MaxPipeRead = 64 << 10

// ReadFrom moves the content of a pipe into a stream, at most 64 KiB, and returns the
// number of bytes: 0 if the pipe is empty. The error is that of read(2).
func (w *Writer) ReadFrom(s Stream, pipe int) (int, error) {
	// Making room overwrites bytes, so make no more than is needed.
	available, err := unix.IoctlGetInt(pipe, unix.TIOCINQ)
	if err != nil || available == 0 {
		return 0, err
	}
	available = min(available, MaxPipeRead)
	w.makeRoom(s, available)
	n, err := unix.Readv(pipe, w.writeBuffers(s, available))
	if err == unix.EAGAIN { // another process has emptied the pipe
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	w.advance(s, n)
	return n, nil
}

// writeBuffers returns the memory for the next bytes of a stream. One read has to fill
// all of it: of a packet (O_DIRECT), the kernel discards what isn't read at once.
func (w *Writer) writeBuffers(s Stream, count int) [][]byte {
	first := w.bytesFrom(s, w.at[s])
	if count <= len(first) {
		return [][]byte{first[:count]}
	}
	return [][]byte{first, w.bytesFrom(s, 0)[:count-len(first)]}
}

// Write adds bytes of the supervisor's own to a stream.
func (w *Writer) Write(s Stream, data []byte) {
	for len(data) > 0 {
		slots := w.bytesFrom(s, w.at[s])
		slots = slots[:min(len(data), len(slots))]
		w.makeRoom(s, len(slots))
		w.advance(s, copy(slots, data))
		data = data[len(slots):]
	}
}

// makeRoom gives up the oldest bytes, whose place the next bytes take.
func (w *Writer) makeRoom(s Stream, count int) {
	floor := w.at[s] + int64(count) - w.Capacity(s)
	if floor <= w.floor[s] {
		return
	}
	if unread := max(w.streams[s].readAt.Load(), w.floor[s]); floor > unread {
		w.lost[s] += floor - unread
	}
	w.floor[s] = floor
	w.streams[s].floor.Store(floor)
	barrier()
}

// Lost returns how many bytes of a stream were overwritten before the reader read them.
func (w *Writer) Lost(s Stream) int64 { return w.lost[s] }

// Room returns for how many more bytes of a stream there is room without overwriting
// bytes from Spent on.
func (w *Writer) Room(s Stream) int64 { return w.Capacity(s) - (w.at[s] - w.Spent(s)) }

// Spent returns the offset before which the ring doesn't have to keep bytes of a stream: the
// log service has them, or else the reader, which wants more.
func (w *Writer) Spent(s Stream) int64 {
	done, _ := w.ReaderProgress(s)
	if w.streams[s].wantsMore.Load() == 0 {
		return done.At
	}
	return min(max(w.streams[s].readAt.Load(), done.At), w.at[s])
}

// AwaitProgress has the reader wake the writer at its next progress. After it, the writer
// has to check Room once more, or it misses progress that was made just before.
func (w *Writer) AwaitProgress() {
	w.awaiting.Store(1)
	barrier()
}

func (w *Writer) advance(s Stream, count int) {
	if count > 0 {
		w.mark(s)
		if s != Events {
			w.hasPrinted.Store(1)
		}
	}
	w.at[s] += int64(count)
	if !w.holds {
		w.release(s, w.at[s])
	}
}

// Written returns how many bytes of a stream were written so far.
func (w *Writer) Written(s Stream) int64 { return w.at[s] }

// Peek returns up to most bytes of a stream from an offset on, without a copy. The ring
// must still have the byte at the offset.
func (w *Writer) Peek(s Stream, from int64, most int) []byte {
	slots := w.bytesFrom(s, from)
	return slots[:min(int64(len(slots)), w.at[s]-from, int64(most))]
}

// End marks a stream as ended.
func (w *Writer) End(s Stream) {
	w.ended[s] = true
	w.release(s, w.released[s])
}

// Fail notes, before the events end, that the container fails.
func (w *Writer) Fail() { w.failed.Store(1) }

// ClaimWake reports whether the reader has to be woken now. The caller has to wake it
// then: further calls return false until the reader sleeps again.
func (w *Writer) ClaimWake() bool {
	if w.sleeping.Load() == 0 {
		return false
	}
	for _, s := range Streams {
		h := &w.streams[s]
		if w.released[s] >= h.wakeAt.Load() || w.hasReleasedEnd(s) {
			return w.sleeping.Swap(0) != 0
		}
	}
	return false
}

// ReaderProgress returns the progress of a stream, and whether the log service has the
// end of the stream. It bounds what the memory says to possible values, because the
// command can write into the ring.
func (w *Writer) ReaderProgress(s Stream) (p Progress, complete bool) {
	p = w.streams[s].progress()
	p.At = min(max(p.At, 0), w.at[s])
	p.Dropped = min(max(p.Dropped, 0), p.At)
	return p, w.ended[s] && p.At == w.at[s] && w.streams[s].complete.Load() != 0
}
