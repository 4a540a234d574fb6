// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ring

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/entrypointer/entrypointer/internal/logs/times"
)

const (
	// maxMarks is how many marks are kept of a stream. One that isn't there any more
	// costs precision: its bytes are taken to have come later.
	maxMarks  = 4096
	marksSize = maxMarks * int(unsafe.Sizeof(mark{}))
)

// A mark says when the bytes from an offset on came, as times.Mark.
type mark struct{ at, time atomic.Int64 }

// marks are those of a stream: the n-th is at n modulo their number.
func (r *Ring) marks(s Stream) *[maxMarks]mark {
	begin := headerSize + len(Printed)*Capacity + eventsCapacity + int(s)*marksSize
	return (*[maxMarks]mark)(unsafe.Pointer(&r.memory[begin]))
}

// mark notes that bytes come now. A clock that steps back stands still until it is
// where it was, and what comes in the same millisecond has one mark.
func (w *Writer) mark(s Stream) {
	now := max(w.clock().UnixMilli(), w.now)
	marks, count := w.marks(s), w.marked[s]
	if count > 0 && now == w.now && marks[(count-1)%maxMarks].time.Load() == now {
		return
	}
	w.now = now
	m := &marks[count%maxMarks]
	m.at.Store(w.at[s])
	m.time.Store(now)
	w.marked[s]++
	w.streams[s].marked.Store(w.marked[s])
}

// Marks says when the bytes of a stream from an offset up to another came, the first
// mark at the first byte; as far as that is known, and nothing of what can't be.
func (r *Reader) Marks(s Stream, from, to int64) (list []times.Mark) {
	marks, h := r.marks(s), &r.streams[s]
	count := h.marked.Load()
	oldest := max(count-maxMarks, 0)
	for n := count - 1; n >= oldest; n-- {
		m := &marks[n%maxMarks]
		at, time := m.at.Load(), m.time.Load()
		// The writer may be about to put another one in the place of the last that fits.
		if h.marked.Load() >= n+maxMarks {
			break
		}
		if at >= to {
			continue
		}
		if last := len(list) - 1; last >= 0 && (at >= list[last].At || time > list[last].Time) {
			break // somebody else has written here
		}
		list = append(list, times.Mark{At: max(at, from), Time: time})
		if at <= from {
			break
		}
	}
	slices.Reverse(list)
	if len(list) > 0 {
		list[0].At = from
	}
	return list
}
