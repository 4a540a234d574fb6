// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ring

// Offsets are those of the next bytes of all streams.
type Offsets [len(Streams)]int64

// Hold has the reader see new bytes only when they are released.
func (w *Writer) Hold() { w.holds = true }

// Offsets returns how much of each stream was written so far.
func (w *Writer) Offsets() Offsets { return w.at }

// HoldsBytes reports whether bytes are held back.
func (w *Writer) HoldsBytes() bool { return w.released != w.at }

// Release shows the reader the bytes before some offsets.
func (w *Writer) Release(until Offsets) {
	for _, s := range Streams {
		w.release(s, until[s])
	}
}

// release shows the reader the bytes of a stream before an offset, and the end of the
// stream if nothing is held back.
func (w *Writer) release(s Stream, until int64) {
	w.released[s] = until
	w.streams[s].written.Store(until)
	if w.hasReleasedEnd(s) {
		w.streams[s].ended.Store(1)
	}
}

func (w *Writer) hasReleasedEnd(s Stream) bool { return w.ended[s] && w.released[s] == w.at[s] }
