// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/pkg/tenants"
)

// layoutSharedFor bounds the age of a layout that a follower shares with others. It must
// be newer than the follower's former one.
const layoutSharedFor = 500 * time.Millisecond

// A layoutCache shares layouts among the readers of a stream, and makes only one per
// stream at a time.
type layoutCache struct {
	memory     *tenants.Shares
	largeSlots chan struct{} // for large listings

	mu     sync.Mutex
	latest map[string]*sharedLayout // by the ID of the stream
}

func newLayoutCache() *layoutCache {
	return &layoutCache{memory: tenants.NewShares(maxReadMemory, maxNamespaceMemory), largeSlots: make(chan struct{}, maxLargeListings), latest: map[string]*sharedLayout{}}
}

// A sharedLayout is an immutable layout with a count of its holders.
type sharedLayout struct {
	*layout
	err   error
	from  int64 // the offset of a tail, -1 for the whole stream
	began time.Time
	done  chan struct{} // closed when layout or err is set

	cache *layoutCache
	id    string
	hold  *memoryHold

	// Guarded by cache.mu:
	holders int
	cancel  context.CancelFunc // cancels the listing when nobody waits for it
	stopped bool
}

// wholeStream is the offset of a layout that isn't a tail.
const wholeStream = -1

// layoutSince returns a layout whose listing began after a time, of the whole stream or of
// its tail from an offset on. The caller has to release it.
func (s *Store) layoutSince(ctx context.Context, id string, from int64, after time.Time) (*sharedLayout, error) {
	for {
		shared, fits := s.layouts.joinOrStart(ctx, s, id, from, after)
		select {
		case <-shared.done:
		case <-ctx.Done():
			if fits {
				shared.release()
			}
			return nil, context.Cause(ctx)
		}
		if !fits {
			continue // the next listing begins now
		}
		if shared.err != nil {
			shared.release()
			return nil, shared.err
		}
		return shared, nil
	}
}

// joinOrStart returns a layout from an offset on that began after a time, which the caller holds. If an
// older one is being made, it returns that, and fits is false: the caller has to wait for
// it and try again.
func (l *layoutCache) joinOrStart(ctx context.Context, s *Store, id string, from int64, after time.Time) (shared *sharedLayout, fits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := l.latest[id]; last != nil {
		if last.began.After(after) && !last.stopped && last.from <= from {
			last.holders++
			return last, true
		}
		select {
		case <-last.done:
		default:
			return last, false
		}
	}
	// Other readers may wait for it after this one has gone.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	shared = &sharedLayout{from: from, began: time.Now(), done: make(chan struct{}), cache: l, id: id, hold: s.hold.sibling(), holders: 2, cancel: stop}
	l.latest[id] = shared
	go shared.run(ctx, s)
	return shared, true
}

// run makes the layout, and holds it for a while for later readers.
func (h *sharedLayout) run(ctx context.Context, s *Store) {
	if h.from == wholeStream {
		h.layout, h.err = s.newLayout(ctx, h.id, h.hold)
	} else {
		h.layout, h.err = s.newTail(ctx, h.id, h.from, h.hold)
	}
	close(h.done)
	if h.err == nil {
		time.AfterFunc(layoutSharedFor, h.evict)
	} else {
		h.evict()
	}
}

// evict removes the layout from the cache. Its holders keep it.
func (h *sharedLayout) evict() {
	h.cache.mu.Lock()
	if h.cache.latest[h.id] == h {
		delete(h.cache.latest, h.id)
	}
	h.cache.mu.Unlock()
	h.release()
}

// release undoes layoutSince.
func (h *sharedLayout) release() {
	h.cache.mu.Lock()
	defer h.cache.mu.Unlock()
	h.holders--
	switch h.holders {
	case 1: // only run is left
		select {
		case <-h.done:
		default:
			h.stopped = true
			h.cancel()
		}
	case 0:
		h.cancel()
		h.hold.release()
	}
}
