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
	// askTimeout bounds a question to the API server.
	askTimeout = 10 * time.Second
	// outagePause is the time between two questions while the API server doesn't respond and
	// a cached answer is still valid. It keeps requests from waiting for a timeout each.
	outagePause = 5 * time.Second
)

// A digest is the cache key of a token or a question. Tokens themselves aren't kept.
type digest = [sha256.Size]byte

// An answerCache caches answers of the API server, and merges equal questions that are
// asked at the same time. Refusals have a cache of their own, so that made-up tokens
// don't evict valid ones.
type answerCache[T any] struct {
	accepted, refused     *cache.LRUExpireCache
	refusalTTL, outageTTL time.Duration
	now                   func() time.Time
	flights               singleflight.Group
}

// An answer is one of the API server, or follows from one.
type answer[T any] struct {
	value T
	// asked is when the API server was asked.
	asked time.Time
	// refreshAt is when to ask again.
	refreshAt time.Time
}

// An entry is a cached answer.
type entry[T any] struct {
	answer[T]
	// triedAt is when the API server was last asked and couldn't answer.
	triedAt time.Time
	// expiresAt is when the answer becomes invalid, even if the API server can't be asked.
	expiresAt time.Time
}

// isFresh reports whether the API server needn't be asked.
func (e entry[T]) isFresh(now time.Time, maxAge time.Duration) bool {
	if !e.triedAt.IsZero() && now.Sub(e.triedAt) < outagePause && now.Before(e.expiresAt) {
		return true
	}
	return now.Before(e.refreshAt) && now.Sub(e.asked) < maxAge
}

// A clock is a cache.Clock.
type clock func() time.Time

// Now implements cache.Clock.
func (c clock) Now() time.Time { return c() }

// newAnswerCache returns a cache of accepted answers, and of maxRemembered refused ones. An
// accepted answer is valid until it is to be refreshed, and during an outage of the API server
// for outage more.
func newAnswerCache[T any](size int, refusalTTL, outage time.Duration, now func() time.Time) *answerCache[T] {
	return &answerCache[T]{
		accepted: cache.NewLRUExpireCacheWithClock(size, clock(now)), refused: cache.NewLRUExpireCacheWithClock(min(size, maxRemembered), clock(now)),
		refusalTTL: refusalTTL, outageTTL: outage, now: now,
	}
}

// get returns the cached answer, or asks the API server. The answer is valid for ttl.
func (m *answerCache[T]) get(ctx context.Context, key digest, ttl time.Duration, ask func(context.Context) (T, error)) (T, error) {
	return m.getWithin(ctx, key, ttl, func(ctx context.Context) (a answer[T], err error) {
		a.value, err = ask(ctx)
		a.asked = m.now()
		a.refreshAt = a.asked.Add(ttl)
		return a, err
	})
}

// getWithin returns the cached answer if the API server was asked within maxAge, or asks. It
// caches no errors but refusals.
func (m *answerCache[T]) getWithin(ctx context.Context, key digest, maxAge time.Duration, ask func(context.Context) (answer[T], error)) (T, error) {
	if known, ok := m.cached(key); ok && known.isFresh(m.now(), maxAge) {
		return known.value, nil
	}
	var none T
	if refusal, ok := m.refused.Get(key); ok {
		return none, refusal.(error)
	}
	// Of two questions, one may need a newer answer than the other.
	flight := m.flights.DoChan(string(key[:])+maxAge.String(), func() (any, error) {
		// Other requests wait for the same answer, so it doesn't end with this one.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		asked, err := ask(ctx)
		return m.record(key, asked, err)
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

func (m *answerCache[T]) cached(key digest) (entry[T], bool) {
	found, ok := m.accepted.Get(key)
	if !ok {
		return entry[T]{}, false
	}
	return found.(entry[T]), true
}

// record caches an answer. If there was none, it returns a cached one that is still
// valid.
func (m *answerCache[T]) record(key digest, asked answer[T], err error) (T, error) {
	now := m.now()
	switch {
	case err == nil:
		m.store(key, entry[T]{answer: asked, expiresAt: asked.refreshAt.Add(m.outageTTL)})
	case isRefusal(err):
		m.accepted.Remove(key)
		m.refused.Add(key, err, m.refusalTTL)
	default:
		if known, ok := m.cached(key); ok && now.Before(known.expiresAt) {
			known.triedAt = now
			m.store(key, known)
			return known.value, nil
		}
	}
	return asked.value, err
}

func (m *answerCache[T]) store(key digest, e entry[T]) {
	m.accepted.Add(key, e, e.expiresAt.Sub(m.now()))
}
