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
	// MaxSmall bounds the small objects of a stream that aren't joined, so that listing them
	// takes only some tenths of a second. The bound of markers, and that of small and large
	// objects together, is twice as high. The bound of joined objects is MaxSmall as well:
	// for a stream that compresses well, it allows 80 GB. Everything that a stream may have
	// fits into memory (memory.go).
	MaxSmall = 20_000
	// smallObject is the size below which an object is small, in bytes before compression.
	smallObject = 64 << 10
	// maxAdmissions bounds the cached admissions, of some 100 bytes each.
	maxAdmissions = 20_000
	// refusalTTL is how long a refusal is cached.
	refusalTTL = 5 * time.Second
)

// The errors of a stream with too many objects.
var (
	ErrTooMany   = errors.New("the stream has too many small pieces that aren't joined yet: send larger pieces, later")
	ErrTooLong   = errors.New("the stream has reached its limit of objects: create another stream")
	ErrScattered = errors.New("the stream has too many pieces that can't be joined because of the gaps between them: send the missing pieces")
)

// admissions decide from cached counts whether a stream takes another object. Each
// replica counts only its own objects between two listings, so with n replicas a limit
// can be exceeded by n-1 quarters.
type admissions struct {
	most int // MaxSmall

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
	smallData = iota
	marker
	largeData
	admissionKinds
)

// objectCounts are the numbers of objects of a stream.
type objectCounts struct {
	small  int // small objects that aren't joined, including markers and claims
	data   int // data objects that aren't joined
	joined int
	// The ranges of bytes that touch: of data, and of data and markers.
	dataRanges, ranges int
}

// admit returns an error if a stream takes no more objects of a kind.
func (s *Store) admit(ctx context.Context, id string, r Range, what int) error {
	if r.Len() >= smallObject && what == smallData {
		what = largeData
	}
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
		of = &admission{remaining: [admissionKinds]int{b.most / 4, b.most / 4, b.most / 4}}
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
	for what, count := range [admissionKinds]struct{ have, most, ranges int }{
		smallData: {have.small, b.most, have.ranges},
		marker:    {have.small, 2 * b.most, have.ranges},
		largeData: {have.data, 2 * b.most, have.dataRanges},
	} {
		of.remaining[what] = min(b.most/4, count.most-count.have)
		switch {
		case what != marker && have.joined >= b.most:
			of.refused[what] = ErrTooLong
		case count.ranges >= count.most/2, what == marker && of.remaining[what] <= 0: // markers never get a 429
			of.refused[what] = ErrScattered
		case of.remaining[what] <= 0:
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
		for _, p := range pieces {
			if p.dropped || p.object.Len() < smallObject {
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
