// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"errors"

	"github.com/entrypointer/entrypointer/internal/logs/room"
)

const (
	// memoryAtOnce is what those who read, and those who count the objects of a
	// stream, hold at a time, in bytes. A namespace has half of it: one stream, as
	// large as it becomes, fits.
	memoryAtOnce = 96 << 20
	memoryShare  = memoryAtOnce / 2

	// What is taken, in bytes, for a piece: while a stream is looked at, of which there
	// are some copies, in a layout, and for those who are told of it as text.
	perLooked, perKnown, perTold = 320, 96, 256
	// perListed is for each byte of a source that is listed: it is copied, and encoded.
	perListed = 8
	// perMark is for a time, and the same as text; perEntry is for one of an index.
	perMark, perEntry = 64, 24
	// unpacking is what it takes to read the index of a joined object, beside the object.
	unpacking = 3 << 20
)

// ErrBusy says that so much is being read that there is no memory for more. Whoever
// comes later can go on where this one stopped.
var ErrBusy = errors.New("too much is being read at the moment")

// A look of more bytes is large: some at a time go on, and the others wait, so that
// those that go on have room to end.
const (
	largeLook   = 2000 * perLooked
	largeAtOnce = 2
)

// A hold is memory that is taken. A nil one takes all that it likes.
type hold struct {
	room  *room.Room
	who   string
	bytes int64
	turns chan struct{} // of large looks
	turn  bool          // whether it has one of them
}

func (h *hold) take(bytes int64) error {
	if h == nil {
		return nil
	}
	if !h.room.Take(h.who, bytes) {
		return ErrBusy
	}
	h.bytes += bytes
	return nil
}

// grow takes more for a look, which may have to wait.
func (h *hold) grow(ctx context.Context, bytes int64) error {
	if h != nil && !h.turn && h.bytes+bytes > largeLook {
		select {
		case h.turns <- struct{}{}:
			h.turn = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return h.take(bytes)
}

// keep gives back what is more than so many bytes, when a look has ended.
func (h *hold) keep(bytes int64) {
	if h == nil {
		return
	}
	if h.turn {
		h.turn = false
		<-h.turns
	}
	if h.bytes <= bytes {
		return
	}
	h.room.GiveBack(h.who, h.bytes-bytes)
	h.bytes = bytes
}

func (h *hold) release() { h.keep(0) }

func (l *looks) hold(who string) *hold { return &hold{room: l.room, who: who, turns: l.turns} }

// another is empty, and of the same client.
func (h *hold) another() *hold {
	if h == nil {
		return nil
	}
	return &hold{room: h.room, who: h.who, turns: h.turns}
}

// Holding returns the same store, whose answers take memory of what a namespace has,
// until they are released. They are ErrBusy if there is too little.
func (s *Store) Holding(namespace string) (holding *Store, release func()) {
	copied := *s
	copied.hold = s.looks.hold(namespace)
	return &copied, copied.hold.release
}

// Held is what all answers take, in bytes.
func (s *Store) Held() int64 { return s.looks.room.Taken() }
