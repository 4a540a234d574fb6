// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ring

import (
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/entrypointer/entrypointer/internal/logs/times"
)

const (
	// MaxMarks bounds the marks of a stream. Bytes whose mark was overwritten get the time
	// of the next mark.
	MaxMarks  = 4096
	marksSize = MaxMarks * int(unsafe.Sizeof(mark{}))
)

// A mark has the offset and the time of a times.Mark.
type mark struct{ at, time atomic.Int64 }

// marks returns the marks of a stream. The n-th is at index n modulo MaxMarks.
func (r *Ring) marks(s Stream) *[MaxMarks]mark {
	begin := headerSize + len(Printed)*int(r.printed) + eventsCapacity + int(s)*marksSize
	return (*[MaxMarks]mark)(unsafe.Pointer(&r.memory[begin]))
}

// lastMarks are the times of the last marks, in Unix milliseconds.
type lastMarks struct{ printed, events int64 }

// of returns the time that a mark of a stream can't precede. Output that is read late may
// come before an event.
func (l *lastMarks) of(s Stream) *int64 {
	if s == Events {
		return &l.events
	}
	return &l.printed
}

// ComesAt has the next bytes come at an earlier time than now, until it is called with the
// zero time.
func (w *Writer) ComesAt(t time.Time) {
	if w.cameAt = 0; !t.IsZero() {
		w.cameAt = t.UnixMilli()
	}
}

// mark notes that the next bytes come now, or at the time of ComesAt. If the clock steps
// back, the last time is kept. Bytes of the same millisecond share a mark.
func (w *Writer) mark(s Stream) {
	now := w.clock().UnixMilli()
	if w.cameAt != 0 {
		now = min(now, w.cameAt)
	}
	last := w.lastMark.of(s)
	now = max(now, *last)
	marks, count := w.marks(s), w.markCount[s]
	if count > 0 && now == *last && marks[(count-1)%MaxMarks].time.Load() == now {
		return
	}
	*last = now
	m := &marks[count%MaxMarks]
	m.at.Store(w.at[s])
	m.time.Store(now)
	w.markCount[s]++
	w.streams[s].markCount.Store(w.markCount[s])
}

// MarkCount returns how many marks a stream has had so far.
func (r *Reader) MarkCount(s Stream) int64 { return r.streams[s].markCount.Load() }

// Marks returns the known times of a range of bytes. The first mark is at the first byte.
// It leaves out marks that are inconsistent, because the command can write into the ring.
func (r *Reader) Marks(s Stream, from, to int64) (list []times.Mark) {
	marks, h := r.marks(s), &r.streams[s]
	count := h.markCount.Load()
	oldest := max(count-MaxMarks, 0)
	for n := count - 1; n >= oldest; n-- {
		m := &marks[n%MaxMarks]
		at, time := m.at.Load(), m.time.Load()
		// The writer may be overwriting the oldest mark.
		if h.markCount.Load() >= n+MaxMarks {
			break
		}
		if at >= to {
			continue
		}
		if last := len(list) - 1; last >= 0 && (at >= list[last].At || time > list[last].Time) {
			break // the command has written into the ring
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
