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
	// be twice as many, and so may small and large ones together. Joined objects may be
	// as many: of a stream that compresses well, these are 80 GB. All that a stream may
	// have fits in memory (memory.go).
	MaxSmall = 20_000
	// small is an object of fewer bytes, before compression.
	small = 64 << 10
	// maxBounded is how many streams are remembered, of some 100 bytes each.
	maxBounded = 20_000
	// refusedFor is how long a stream that is full isn't looked at again.
	refusedFor = 5 * time.Second
)

// What a stream with too many objects comes to.
var (
	ErrTooMany   = errors.New("the stream has too many small pieces that aren't joined yet: send larger ones, later")
	ErrTooLong   = errors.New("the stream has as many objects as a stream can have: begin another one")
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
	left    [kinds]int // before the stream is looked at
	refused [kinds]error
	until   time.Time
}

func newBounds(most int) *bounds { return &bounds{most: most, of: map[string]*bound{}} }

// What is bounded.
const (
	forBytes = iota
	forMarkers
	forLarge
	kinds
)

// A census is how many objects a stream has.
type census struct {
	small  int // that aren't joined, markers and claims included
	data   int // that aren't joined
	joined int
	// What would be left if all were joined that touch, of the data and in all.
	dataRanges, ranges int
}

// admit says whether a stream takes an object more.
func (s *Store) admit(ctx context.Context, id string, r Range, what int) error {
	if r.Len() >= small && what == forBytes {
		what = forLarge
	}
	if known, refused := s.bounds.take(id, what, time.Now()); known {
		return refused
	}
	have, err := s.count(ctx, id)
	if err != nil {
		return err
	}
	return s.bounds.looked(id, have, time.Now()).refused[what]
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
		of = &bound{left: [kinds]int{b.most / 4, b.most / 4, b.most / 4}}
		b.of[id] = of
	}
	if refused := of.refused[what]; refused != nil {
		return now.Before(of.until), refused
	}
	of.left[what]--
	return of.left[what] >= 0, nil
}

// looked notes how many objects a stream has.
func (b *bounds) looked(id string, have census, now time.Time) *bound {
	of := &bound{until: now.Add(refusedFor)}
	for what, is := range [kinds]struct{ have, most, ranges int }{
		forBytes:   {have.small, b.most, have.ranges},
		forMarkers: {have.small, 2 * b.most, have.ranges},
		forLarge:   {have.data, 2 * b.most, have.dataRanges},
	} {
		of.left[what] = min(b.most/4, is.most-is.have)
		switch {
		case what != forMarkers && have.joined >= b.most:
			of.refused[what] = ErrTooLong
		case is.ranges >= is.most/2, what == forMarkers && of.left[what] <= 0: // markers aren't asked to come again
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

// count lists a stream.
func (s *Store) count(ctx context.Context, id string) (have census, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookLimit, errors.New("counting the objects of a stream took too long"))
	defer cancel()
	h := s.looks.hold(s.owner)
	defer h.release()
	for _, kind := range []string{"data", "drop"} {
		pieces, err := s.pieces(ctx, id, kind, h)
		if err != nil {
			return have, fmt.Errorf("counting the objects of stream %q: %w", id, err)
		}
		for _, p := range pieces {
			if p.dropped || p.object.Len() < small {
				have.small++
			}
		}
		ranges := len(union(pieces))
		if have.ranges += ranges; kind == "data" {
			have.data, have.dataRanges = len(pieces), ranges
		}
		h.release()
	}
	for kind, n := range map[string]*int{"claim": &have.small, "joined": &have.joined} {
		err := s.bucket.Each(ctx, directory(id)+kind, func(storage.Object) bool {
			*n++
			return true
		})
		if err != nil {
			return have, fmt.Errorf("counting the objects of stream %q: %w", id, err)
		}
	}
	return have, nil
}
