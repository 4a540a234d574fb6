// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"errors"

	"github.com/entrypointer/entrypointer/pkg/tenants"
)

const (
	// maxReadMemory bounds the memory for reading, and for counting the objects of
	// streams, in bytes. Half of it, the share of a namespace, is enough for one stream of
	// any size.
	maxReadMemory      = 96 << 20
	maxNamespaceMemory = maxReadMemory / 2

	// The memory of a piece, in bytes: during a listing, which makes copies; in a layout;
	// and as text in a response.
	perListedPiece, perLayoutPiece, perReportedPiece = 360, 104, 256
	// perSourceByte is for each byte of a listed source, which is copied and encoded.
	perSourceByte = 8
	// perTimeMark is for a mark and its JSON, perIndexEntry for an entry of an index.
	perTimeMark, perIndexEntry = 64, 24
	// unpackIndexMemory is for unpacking the index of a joined object, in addition to the
	// object.
	unpackIndexMemory = 3 << 20
)

// ErrBusy says that all memory for reading is in use. A reader can continue later.
var ErrBusy = errors.New("all memory for reading is in use")

const (
	// A listing that takes more memory than largeListing waits for one of maxLargeListings
	// slots, so that those under way can finish.
	largeListing     = 2000 * perListedPiece
	maxLargeListings = 2
)

// A memoryHold is memory that a request has taken. A nil hold is unlimited.
type memoryHold struct {
	memory       *tenants.Shares
	namespace    string // the holder
	bytes        int64
	largeSlots   chan struct{} // for large listings
	hasLargeSlot bool          // has one of largeSlots
}

func (h *memoryHold) take(bytes int64) error {
	if h == nil {
		return nil
	}
	if !h.memory.TryAcquire(bytes, h.namespace) {
		return ErrBusy
	}
	h.bytes += bytes
	return nil
}

// grow takes more memory for a listing. It may wait for a large slot.
func (h *memoryHold) grow(ctx context.Context, bytes int64) error {
	if h != nil && !h.hasLargeSlot && h.bytes+bytes > largeListing {
		select {
		case h.largeSlots <- struct{}{}:
			h.hasLargeSlot = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return h.take(bytes)
}

// shrinkTo ends a listing, and gives back all memory beyond some bytes.
func (h *memoryHold) shrinkTo(bytes int64) {
	if h == nil {
		return
	}
	if h.hasLargeSlot {
		h.hasLargeSlot = false
		<-h.largeSlots
	}
	if h.bytes <= bytes {
		return
	}
	h.memory.Release(h.bytes-bytes, h.namespace)
	h.bytes = bytes
}

func (h *memoryHold) release() { h.shrinkTo(0) }

func (l *layoutCache) hold(namespace string) *memoryHold {
	return &memoryHold{memory: l.memory, namespace: namespace, largeSlots: l.largeSlots}
}

// sibling returns an empty hold of the same namespace.
func (h *memoryHold) sibling() *memoryHold {
	if h == nil {
		return nil
	}
	return &memoryHold{memory: h.memory, namespace: h.namespace, largeSlots: h.largeSlots}
}

// WithMemoryHold returns the same store for reads of a namespace. They hold memory of its
// share until release is called, and fail with ErrBusy if there isn't enough.
func (s *Store) WithMemoryHold(namespace string) (holding *Store, release func()) {
	copied := *s
	copied.hold = s.layouts.hold(namespace)
	return &copied, copied.hold.release
}

// HeldBytes returns the memory that all reads hold.
func (s *Store) HeldBytes() int64 { return s.layouts.memory.InUse() }
