// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

const (
	// MaxSmall is how many small objects that aren't joined a stream may have when
	// bytes are taken: a listing of them takes some tenths of a second. Markers may
	// be twice as many.
	MaxSmall = 20_000
	// small is an object of fewer bytes, before compression. Larger ones are bounded
	// by what a namespace may store.
	small = 64 << 10
	// maxBounded is how many streams are remembered, of some 100 bytes each.
	maxBounded = 20_000
	// refusedFor is how long a stream that is full isn't looked at again.
	refusedFor = 5 * time.Second
)

// What a stream with too many objects comes to.
var (
	ErrTooMany   = errors.New("the stream has too many small pieces that aren't joined yet: send larger ones, later")
	ErrScattered = errors.New("the stream has too many pieces that don't touch each other, which can't be joined: send those between them")
)

// bounds count what this replica takes, and look at a stream now and then. With n
// replicas, it can be exceeded by n-1 quarters.
type bounds struct {
	most int

	mu sync.Mutex
	of map[string]*bound
}

type bound struct {
	left    [2]int // before the stream is looked at, and the same for markers
	refused [2]error
	until   time.Time
}

func newBounds(most int) *bounds { return &bounds{most: most, of: map[string]*bound{}} }

// What is bounded.
const (
	forBytes = iota
	forMarkers
)

// admit says whether a stream takes an object more.
func (s *Store) admit(ctx context.Context, id string, r Range, what int) error {
	if r.Len() >= small && what == forBytes {
		return nil
	}
	if known, refused := s.bounds.take(id, what, time.Now()); known {
		return refused
	}
	have, ranges, err := s.pieceCount(ctx, id)
	if err != nil {
		return err
	}
	return s.bounds.looked(id, have, ranges, time.Now()).refused[what]
}

// take counts an object, if it is known that there is room, or that there is none.
func (b *bounds) take(id string, what int, now time.Time) (known bool, refused error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.of[id]
	if of == nil {
		if len(b.of) >= maxBounded {
			clear(b.of)
		}
		of = &bound{left: [2]int{b.most / 4, b.most / 4}}
		b.of[id] = of
	}
	if refused := of.refused[what]; refused != nil {
		return now.Before(of.until), refused
	}
	of.left[what]--
	return of.left[what] >= 0, nil
}

// looked notes how many objects a stream has, and in how many ranges.
func (b *bounds) looked(id string, have, ranges int, now time.Time) *bound {
	of := &bound{until: now.Add(refusedFor)}
	for what, most := range []int{b.most, 2 * b.most} {
		of.left[what] = min(b.most/4, most-have)
		switch {
		case ranges >= most/2, what == forMarkers && of.left[what] <= 0: // markers aren't asked to come again
			of.refused[what] = ErrScattered
		case of.left[what] <= 0:
			of.refused[what] = ErrTooMany
		}
		of.left[what]-- // the one that is asked about
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of[id] = of
	return of
}

// pieceCount is how many small objects a stream has, and how many would be left of
// them if all were joined.
func (s *Store) pieceCount(ctx context.Context, id string) (have, ranges int, err error) {
	h := &hold{room: s.looks.room, who: s.owner}
	defer h.release()
	for _, kind := range []string{"data", "drop"} {
		h.release() // what was counted is garbage
		pieces, err := s.pieces(ctx, id, kind, h)
		if err != nil {
			return 0, 0, fmt.Errorf("counting the objects of stream %q: %w", id, err)
		}
		for _, p := range pieces {
			if p.dropped || p.object.Len() < small {
				have++
			}
		}
		ranges += len(union(pieces))
	}
	err = s.bucket.Each(ctx, directory(id)+"claim", func(storage.Object) bool {
		have++
		return true
	})
	return have, ranges, err
}
