// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ring

// A Reader is the shipper's side of a ring.
type Reader struct{ *Ring }

// Reader returns the reader of a ring from Open.
func (r *Ring) Reader() *Reader { return &Reader{r} }

// Read copies bytes of a stream from an offset on, as many as the ring has and fit. If
// the byte at the offset was overwritten, Read copies none, and returns the offset of the
// oldest byte in the ring. Otherwise, floor is the given offset.
func (r *Reader) Read(s Stream, from int64, into []byte) (n int, floor int64) {
	h := &r.streams[s]
	written := h.written.Load()
	for n < len(into) && from+int64(n) < written {
		slots := r.bytesFrom(s, from+int64(n))
		n += copy(into[n:min(int64(len(into)), written-from)], slots)
	}
	barrier()
	if floor = min(h.floor.Load(), written); floor > from {
		return 0, floor
	}
	return n, from
}

// NoteRead notes the offset of the next Read.
func (r *Reader) NoteRead(s Stream, at int64) { r.streams[s].readAt.Store(at) }

// WantMore tells whether the reader can make no progress before it has more bytes, because
// it can't tell yet whether those that it has read are a secret. The writer may then
// overwrite them.
func (r *Reader) WantMore(s Stream, is bool) {
	var wants uint32
	if is {
		wants = 1
	}
	r.streams[s].wantsMore.Store(wants)
}

// ClaimWake reports whether the writer has to be woken after progress. The caller has to
// wake it then: further calls return false until the writer waits again.
func (r *Reader) ClaimWake() bool { return r.awaiting.Load() != 0 && r.awaiting.Swap(0) != 0 }

// Written returns how many bytes of a stream were written so far, and whether the stream
// has ended.
func (r *Reader) Written(s Stream) (written int64, ended bool) {
	ended = r.streams[s].ended.Load() != 0
	return r.streams[s].written.Load(), ended
}

// HasPrinted reports whether the command has printed something, also if the reader doesn't
// see it yet.
func (r *Reader) HasPrinted() bool { return r.hasPrinted.Load() != 0 }

// Progress returns the progress that was saved last.
func (r *Reader) Progress(s Stream) Progress { return r.streams[s].progress() }

func (h *streamHeader) progress() Progress { return h.progressSlots[h.progressSlot.Load()&1] }

// SaveProgress saves the progress of a stream. It is atomic, also if the process is
// killed meanwhile.
func (r *Reader) SaveProgress(s Stream, p Progress) {
	h := &r.streams[s]
	next := 1 - h.progressSlot.Load()&1
	h.progressSlots[next] = p
	barrier()
	h.progressSlot.Store(next)
}

// Failed reports whether the container fails.
func (r *Reader) Failed() bool { return r.failed.Load() != 0 }

// Explain notes that the termination message is written, or not needed.
func (r *Reader) Explain() { r.explained.Store(1) }

// MarkComplete notes that the log service has the end of a stream.
func (r *Reader) MarkComplete(s Stream) { r.streams[s].complete.Store(1) }

// IsComplete reports whether the log service has the end of a stream.
func (r *Reader) IsComplete(s Stream) bool { return r.streams[s].complete.Load() != 0 }

// WakeAt has the reader woken once a stream has so many written bytes.
func (r *Reader) WakeAt(s Stream, written int64) { r.streams[s].wakeAt.Store(written) }

// Sleep announces that the reader is going to wait for Wake. After it, the reader has to
// check once more for bytes, or it misses those that were written just before.
func (r *Reader) Sleep() {
	r.sleeping.Store(1)
	barrier()
}

// Awake withdraws Sleep.
func (r *Reader) Awake() { r.sleeping.Store(0) }

// SetFailure tells the writer why nothing can be sent, "" if all is well. It cuts texts
// off after maxFailure bytes.
func (r *Reader) SetFailure(text string) {
	r.failureLength.Store(0)
	barrier()
	n := copy(r.failure[:], text)
	barrier()
	r.failureLength.Store(uint32(n)) //nolint:gosec // it is at most maxFailure
}
