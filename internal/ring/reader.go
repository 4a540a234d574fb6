// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ring

// A Reader is the shipper's side.
type Reader struct{ *Ring }

// Reader returns the reader of memory that was opened.
func (r *Ring) Reader() *Reader { return &Reader{r} }

// Read copies the bytes of a stream from an offset on, as many as there are and as
// fit. If they are there no more, it copies none, and returns the offset of the
// first that is.
func (r *Reader) Read(s Stream, from int64, into []byte) (n int, floor int64) {
	h := &r.streams[s]
	written := h.written.Load()
	for n < len(into) && from+int64(n) < written {
		slots := r.slots(s, from+int64(n))
		n += copy(into[n:min(int64(len(into)), written-from)], slots)
	}
	barrier()
	if floor = min(h.floor.Load(), written); floor > from {
		return 0, floor
	}
	return n, from
}

// Written is how many bytes of a stream there were until now, and whether that is all.
func (r *Reader) Written(s Stream) (written int64, ended bool) {
	ended = r.streams[s].ended.Load() != 0
	return r.streams[s].written.Load(), ended
}

// Progress is what was noted last.
func (r *Reader) Progress(s Stream) Progress { return r.streams[s].progress() }

func (h *streamHeader) progress() Progress { return h.done[h.which.Load()&1] }

// Note keeps how far the reader has come: all of it or nothing, if it dies meanwhile.
func (r *Reader) Note(s Stream, p Progress) {
	h := &r.streams[s]
	next := 1 - h.which.Load()&1
	h.done[next] = p
	barrier()
	h.which.Store(next)
}

// Close says that the service knows the end of a stream.
func (r *Reader) Close(s Stream) { r.streams[s].closed.Store(1) }

// Closed reports whether that was said.
func (r *Reader) Closed(s Stream) bool { return r.streams[s].closed.Load() != 0 }

// WakeAt says how many bytes of a stream there have to be for the reader to be woken.
func (r *Reader) WakeAt(s Stream, written int64) { r.streams[s].wakeAt.Store(written) }

// Sleep announces that the reader will wait to be woken. It looks once more after
// that, or what came just before is found late.
func (r *Reader) Sleep() {
	r.sleeping.Store(1)
	barrier()
}

// Awake takes that back.
func (r *Reader) Awake() { r.sleeping.Store(0) }

// SetFailure says what the reader can't do, "" if it can. At most some thousand bytes
// are kept.
func (r *Reader) SetFailure(text string) {
	r.length.Store(0)
	barrier()
	n := copy(r.failure[:], text)
	barrier()
	r.length.Store(uint32(n)) //nolint:gosec // it is at most maxFailure
}
