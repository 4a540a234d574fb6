// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

const (
	// Sweepers bounds the streams that a sweep works on at the same time.
	Sweepers = 32
	// maxInventory bounds the objects of a stream that are taken from a listing of all streams.
	maxInventory = 2000
)

// A Sweep looks at many streams, at a time of the storage's clock.
type Sweep struct {
	store   *Store
	looking *Store // on an untouchable bucket
	now     time.Time
	inDoubt bool // about the time: nothing is deleted because of its age
	holds   *sharedHolds
}

// NewSweep returns a sweep.
func (s *Store) NewSweep(now time.Time, inDoubt bool) *Sweep {
	return &Sweep{store: s, looking: newStore(untouchable{}, nil), now: now, inDoubt: inDoubt, holds: &sharedHolds{known: map[string]*holdsAt{}}}
}

// An Inventory is what a listing of many streams has of one. It decides only that nothing is
// to be done: its pages may be minutes apart, so what changes a stream lists it again.
type Inventory struct {
	ID      string
	view    view
	objects int
}

// Has reports whether the stream has an object on top: meta, end or erased.
func (i *Inventory) Has(name string) bool { return i.view.has(name) }

func (v *view) has(name string) bool {
	for _, o := range v.top {
		if o.Name == name {
			return true
		}
	}
	return false
}

// EachInventory lists all streams whose IDs begin with a prefix, in the order of the IDs,
// until each returns false.
func (s *Store) EachInventory(ctx context.Context, prefix string, each func(*Inventory) bool) error {
	var of *Inventory
	more := true
	err := s.bucket.Scan(ctx, "streams/"+prefix, func(o storage.Object) bool {
		id, name, below := strings.Cut(strings.TrimPrefix(o.Name, "streams/"), "/")
		if !below || !IsID(id) {
			return true
		}
		if of != nil && of.ID != id {
			if more = each(of); !more {
				return false
			}
			of = nil
		}
		if of == nil {
			of = &Inventory{ID: id}
		}
		of.add(name, o)
		return true
	})
	if err != nil {
		return fmt.Errorf("listing all streams: %w", err)
	}
	if of != nil && more {
		each(of)
	}
	return nil
}

func (i *Inventory) add(name string, o storage.Object) {
	kind, name, below := strings.Cut(name, "/")
	if !below {
		kind, name = "", kind
	}
	i.objects++
	if i.objects == maxInventory {
		i.view = view{top: i.view.top}
	}
	if i.objects < maxInventory || kind == "" {
		o.Name = name
		i.view.add(kind, o)
	}
}

// EachTombstone calls each for the IDs of the streams that are being deleted and begin with a
// prefix, in their order, until each returns false.
func (s *Store) EachTombstone(ctx context.Context, prefix string, each func(id string) bool) error {
	err := s.bucket.Scan(ctx, tombstones+prefix, func(o storage.Object) bool {
		id := strings.TrimPrefix(o.Name, tombstones)
		return !IsID(id) || each(id)
	})
	if err != nil {
		return fmt.Errorf("listing deleted streams: %w", err)
	}
	return nil
}

// errUntouchable is the error of a bucket that lets nobody do anything.
var errUntouchable = errors.New("the stream has something to do")

// untouchable is a bucket for looking at an inventory: whoever calls it has something to do.
type untouchable struct{ storage.Bucket }

// Create implements storage.Bucket.
func (untouchable) Create(context.Context, string, []byte) error { return errUntouchable }

// Read implements storage.Bucket.
func (untouchable) Read(context.Context, string) ([]byte, error) { return nil, errUntouchable }

// Delete implements storage.Bucket.
func (untouchable) Delete(context.Context, string) error { return errUntouchable }

// DeleteAll implements storage.Bucket.
func (untouchable) DeleteAll(context.Context, []string) error { return errUntouchable }

// Look says what Tidy would find. It reports whether Tidy has nothing to do.
func (w *Sweep) Look(of *Inventory, keep time.Duration) (found TidyResult, isAtRest bool) {
	t := tidier{store: w.looking, id: of.ID, now: w.now, keep: keep, inDoubt: w.inDoubt, sweep: w, view: of.view}
	t.countAll()
	if w.inDoubt && keep > 0 && w.now.Sub(t.Last) > keep {
		t.Expired = true
		return t.TidyResult, of.objects < maxInventory
	}
	counted := t.TidyResult
	err := t.work(context.Background()) // which calls nothing
	if err != nil {
		return counted, false
	}
	return t.TidyResult, of.objects < maxInventory
}

// Tidy is Store.Tidy. It returns ErrNoStream, and changes nothing, if the stream has no meta.
func (w *Sweep) Tidy(ctx context.Context, id string, keep time.Duration) (TidyResult, error) {
	return (&tidier{store: w.store, id: id, now: w.now, keep: keep, inDoubt: w.inDoubt, sweep: w}).tidy(ctx)
}

// MarkDeleted is Store.MarkDeleted, and reports whether the stream isn't held. The holds may
// have been listed up to holdsAge before: FinishDeletions looks at them again, and restores
// the stream.
func (w *Sweep) MarkDeleted(ctx context.Context, id string, source Source) (done bool, err error) {
	holds, err := w.holds.of(ctx, w.store, source.Namespace)
	if err == nil && holds.Has(source) {
		return false, nil
	}
	if err == nil {
		err = w.store.bury(ctx, id, source)
	}
	if err != nil {
		return false, fmt.Errorf("marking stream %q as deleted: %w", id, err)
	}
	return true, nil
}

const (
	// holdsAge is for how long a listing of the holds serves all streams of a namespace.
	holdsAge = 10 * time.Second
	// maxSharedHolds bounds the namespaces whose holds are remembered.
	maxSharedHolds = 100
)

// sharedHolds are listings of holds that streams share.
type sharedHolds struct {
	mu    sync.Mutex
	known map[string]*holdsAt // by namespace
}

type holdsAt struct {
	lock  chan struct{} // has room for whoever lists
	began time.Time
	holds Holds
}

func (h *sharedHolds) of(ctx context.Context, s *Store, namespace string) (Holds, error) {
	h.mu.Lock()
	at := h.known[namespace]
	if at == nil {
		if len(h.known) >= maxSharedHolds {
			clear(h.known)
		}
		at = &holdsAt{lock: make(chan struct{}, 1)}
		h.known[namespace] = at
	}
	h.mu.Unlock()
	select {
	case at.lock <- struct{}{}:
		defer func() { <-at.lock }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if now := time.Now(); at.began.IsZero() || now.Sub(at.began) > holdsAge {
		holds, err := s.Holds(ctx, namespace)
		if err != nil {
			return nil, err
		}
		at.began, at.holds = now, holds
	}
	return at.holds, nil
}

// oldTombstones returns the tombstones of IDs whose first digit is in a range that were
// written before a time or, because the clock was wrong then, after another.
func (s *Store) oldTombstones(ctx context.Context, first, last byte, before, after time.Time) (old []storage.Object, err error) {
	from := string(first)
	if first == '0' {
		from = ""
	}
	if err := s.bucket.Walk(ctx, tombstones, from, func(o storage.Object) bool {
		if o.Name[0] > last {
			return false
		}
		if IsID(o.Name) && (!o.Written.After(before) || o.Written.After(after)) {
			old = append(old, o)
		}
		return len(old) < maxListedObjects
	}); err != nil {
		return nil, fmt.Errorf("listing deleted streams: %w", err)
	}
	return old, nil
}

// FinishDeletions looks at old tombstones, and at those from the future, of streams whose IDs
// have a first digit in a range. It undoes the first step for streams whose retention isn't
// over, because the clock was wrong when they were marked as deleted, or because the
// retention was shorter, and for those that are held. For others whose tombstones are old it
// takes the second step, unless the time is in doubt: it deletes their objects. It returns
// the numbers of streams. A failure for one stream doesn't stop the others.
func (w *Sweep) FinishDeletions(ctx context.Context, first, last byte, keep func(namespace string) time.Duration) (restored, removed int, err error) {
	list, err := w.store.oldTombstones(ctx, first, last, w.now.Add(-tombstoneAge), w.now.Add(settleTime))
	if err != nil {
		return 0, 0, err
	}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(Sweepers)
	failed := 0
	for _, o := range list {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			isRestored, isRemoved, failure := w.finishDeletion(ctx, o, keep)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case failure != nil:
				if failed++; err == nil {
					err = fmt.Errorf("finishing the deletion of stream %q: %w", o.Name, failure)
				}
			case isRestored:
				restored++
			case isRemoved:
				removed++
			}
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	if failed > 1 {
		err = fmt.Errorf("%d streams failed, the first one: %w", failed, err)
	}
	return restored, removed, err
}

func (w *Sweep) finishDeletion(ctx context.Context, tombstone storage.Object, keep func(namespace string) time.Duration) (restored, removed bool, err error) {
	restored, err = w.store.restore(ctx, tombstone, w.now, keep)
	if err != nil || restored || w.inDoubt || tombstone.Written.After(w.now.Add(-tombstoneAge)) {
		return restored, false, err
	}
	// Writes during the listing before the tombstone count as new, too.
	err = w.store.remove(ctx, tombstone.Name, tombstone.Written.Add(-listTimeout))
	return false, err == nil, err
}
