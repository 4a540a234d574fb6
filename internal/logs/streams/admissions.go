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
	// MaxPieces bounds the objects of a stream that aren't joined: data, markers and claims.
	// There may be half as many again if these are markers, which take the place of data that
	// is refused. Half of MaxPieces is the bound of joined objects: for a stream that
	// compresses well, it allows 80 GB. Everything that a stream may have fits into memory
	// (memory.go), and listing it takes less than a second.
	MaxPieces = 40_000
	// maxAdmissions bounds the cached admissions, of some 100 bytes each.
	maxAdmissions = 20_000
	// refusalTTL is how long a refusal is cached.
	refusalTTL = 5 * time.Second
)

// The errors of a stream with too many objects.
var (
	ErrTooMany = errors.New("the stream has too many pieces that aren't joined yet: send larger pieces, later")
	ErrTooLong = errors.New("the stream has reached its limit of objects, and joining makes no room: send the pieces that are missing between others, or create another stream")
)

// admissions decide from cached counts whether a stream takes another object. Each
// replica counts only its own objects between two listings, so with n replicas a limit
// can be exceeded by n-1 eighths.
type admissions struct {
	most int // MaxPieces

	mu     sync.Mutex
	limits map[string]*admission
}

// An admission is the state of one stream.
type admission struct {
	remaining [admissionKinds]int // objects until the stream has to be listed again
	refused   [admissionKinds]error
	until     time.Time // the end of refused
}

func newAdmissions(most int) *admissions {
	return &admissions{most: most, limits: map[string]*admission{}}
}

// The kinds of objects that have a limit.
const (
	dataObject = iota
	markerObject
	admissionKinds
)

// objectCounts are the numbers of objects of a stream.
type objectCounts struct {
	pieces int // objects that aren't joined
	ranges int // of bytes that touch: joining leaves as many objects at least
	joined int
}

// admit returns an error if a stream takes no more objects of a kind.
func (s *Store) admit(ctx context.Context, id string, what int) error {
	if known, refused := s.admissions.tryTake(id, what, time.Now()); known {
		return refused
	}
	have, err := s.countObjects(ctx, id)
	if err != nil {
		return err
	}
	return s.admissions.setCounts(id, have, time.Now()).refused[what]
}

// tryTake counts an object if the cached counts allow a decision. Otherwise, known is
// false.
func (b *admissions) tryTake(id string, what int, now time.Time) (known bool, refused error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.limits[id]
	if of == nil {
		if len(b.limits) >= maxAdmissions {
			clear(b.limits)
		}
		of = &admission{remaining: [admissionKinds]int{b.most / 8, b.most / 8}}
		b.limits[id] = of
	}
	if refused := of.refused[what]; refused != nil {
		return now.Before(of.until), refused
	}
	of.remaining[what]--
	return of.remaining[what] >= 0, nil
}

// setCounts caches the counts of a listing, and counts the object that has caused it.
func (b *admissions) setCounts(id string, have objectCounts, now time.Time) *admission {
	of := &admission{until: now.Add(refusalTTL)}
	for what, most := range [admissionKinds]int{dataObject: b.most, markerObject: b.most + b.most/2} {
		of.remaining[what] = min(b.most/8, most-have.pieces)
		isFull := of.remaining[what] <= 0
		switch {
		case have.ranges >= most/2, what == dataObject && have.joined >= b.most/2, what == markerObject && isFull: // markers never get a 429
			of.refused[what] = ErrTooLong
		case isFull:
			of.refused[what] = ErrTooMany
		}
		of.remaining[what]-- // for the object that has caused the listing
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limits[id] = of
	return of
}

// countObjects lists a stream, and counts its objects.
func (s *Store) countObjects(ctx context.Context, id string) (have objectCounts, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errors.New("counting the objects of a stream took too long"))
	defer cancel()
	h := s.layouts.hold(s.owner)
	defer h.release()
	for _, kind := range []string{"data", "drop"} {
		pieces, err := s.pieces(ctx, id, kind, h)
		if err != nil {
			return have, fmt.Errorf("counting the objects of stream %q: %w", id, err)
		}
		have.pieces += len(pieces)
		have.ranges += len(union(pieces))
		h.release()
	}
	for kind, n := range map[string]*int{"claim": &have.pieces, "joined": &have.joined} {
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
