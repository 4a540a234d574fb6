// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/sha256"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// asking is how long the API server may take to answer.
	asking = 10 * time.Second
	// outagePause lies between two questions to an API server that doesn't answer,
	// where one can do without: nobody waits for each.
	outagePause = 5 * time.Second
)

// A digest is what is known of a question or token: a token itself isn't kept.
type digest = [sha256.Size]byte

// A memory keeps what the API server said, for a while, and asks once what several
// want to know at the same time. What was refused is apart, so that whoever makes
// up tokens pushes none out that are good.
type memory[T any] struct {
	good, bad     *cache.LRUExpireCache
	kept, refused time.Duration
	outage        time.Duration
	now           func() time.Time
	flights       singleflight.Group
}

// An entry is something good.
type entry[T any] struct {
	value T
	// again is when the API server is asked again.
	again time.Time
	// end is when it isn't believed any more, whether there is an answer or not.
	end time.Time
}

// A clock is a cache.Clock.
type clock func() time.Time

// Now implements cache.Clock.
func (c clock) Now() time.Time { return c() }

// newMemory returns one of so many answers of each kind: the good ones are believed
// for the time that they are kept, and for an outage longer if no question is answered.
func newMemory[T any](size int, kept, refused, outage time.Duration, now func() time.Time) *memory[T] {
	return &memory[T]{
		good: cache.NewLRUExpireCacheWithClock(size, clock(now)), bad: cache.NewLRUExpireCacheWithClock(size, clock(now)),
		kept: kept, refused: refused, outage: outage, now: now,
	}
}

// of returns what is known, or else what the API server says. Errors that refuse
// nothing are not remembered.
func (m *memory[T]) of(ctx context.Context, key digest, ask func(context.Context) (T, error)) (T, error) {
	if known, ok := m.known(key); ok && m.now().Before(known.again) {
		return known.value, nil
	}
	var none T
	if refusal, ok := m.bad.Get(key); ok {
		return none, refusal.(error)
	}
	flight := m.flights.DoChan(string(key[:]), func() (any, error) {
		// Whoever asked first may go; the others still want to know.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), asking)
		defer cancel()
		value, err := ask(ctx)
		return m.heard(key, value, err)
	})
	select {
	case <-ctx.Done():
		return none, ctx.Err()
	case answer := <-flight:
		if answer.Err != nil {
			return none, answer.Err
		}
		return answer.Val.(T), nil
	}
}

func (m *memory[T]) known(key digest) (entry[T], bool) {
	found, ok := m.good.Get(key)
	if !ok {
		return entry[T]{}, false
	}
	return found.(entry[T]), true
}

// heard remembers an answer, or makes do with an earlier one where there is none.
func (m *memory[T]) heard(key digest, value T, err error) (T, error) {
	now := m.now()
	switch {
	case err == nil:
		m.keep(key, entry[T]{value, now.Add(m.kept), now.Add(m.kept + m.outage)})
	case refuses(err):
		m.good.Remove(key)
		m.bad.Add(key, err, m.refused)
	default:
		if known, ok := m.known(key); ok && now.Before(known.end) {
			known.again = now.Add(outagePause)
			if known.again.After(known.end) {
				known.again = known.end
			}
			m.keep(key, known)
			return known.value, nil
		}
	}
	return value, err
}

func (m *memory[T]) keep(key digest, e entry[T]) { m.good.Add(key, e, e.end.Sub(m.now())) }
