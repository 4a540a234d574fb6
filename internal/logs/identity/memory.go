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
	accepted, refused       *cache.LRUExpireCache
	acceptedTTL, refusalTTL time.Duration
	outageTTL               time.Duration
	now                     func() time.Time
	flights                 singleflight.Group
}

// An entry is a cached answer.
type entry[T any] struct {
	value T
	// refreshAt is when to ask again.
	refreshAt time.Time
	// expiresAt is when the answer becomes invalid, even if the API server can't be asked.
	expiresAt time.Time
}

// A clock is a cache.Clock.
type clock func() time.Time

// Now implements cache.Clock.
func (c clock) Now() time.Time { return c() }

// newAnswerCache returns a cache of size accepted and size refused answers. An accepted
// answer is valid for acceptedTTL, and during an outage of the API server for outage
// more.
func newAnswerCache[T any](size int, acceptedTTL, refusalTTL, outage time.Duration, now func() time.Time) *answerCache[T] {
	return &answerCache[T]{
		accepted: cache.NewLRUExpireCacheWithClock(size, clock(now)), refused: cache.NewLRUExpireCacheWithClock(size, clock(now)),
		acceptedTTL: acceptedTTL, refusalTTL: refusalTTL, outageTTL: outage, now: now,
	}
}

// get returns the cached answer, or asks the API server. It caches no errors but
// refusals.
func (m *answerCache[T]) get(ctx context.Context, key digest, ask func(context.Context) (T, error)) (T, error) {
	if known, ok := m.cached(key); ok && m.now().Before(known.refreshAt) {
		return known.value, nil
	}
	var none T
	if refusal, ok := m.refused.Get(key); ok {
		return none, refusal.(error)
	}
	flight := m.flights.DoChan(string(key[:]), func() (any, error) {
		// Other requests wait for the same answer, so it doesn't end with this one.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		value, err := ask(ctx)
		return m.record(key, value, err)
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
func (m *answerCache[T]) record(key digest, value T, err error) (T, error) {
	now := m.now()
	switch {
	case err == nil:
		m.store(key, entry[T]{value, now.Add(m.acceptedTTL), now.Add(m.acceptedTTL + m.outageTTL)})
	case isRefusal(err):
		m.accepted.Remove(key)
		m.refused.Add(key, err, m.refusalTTL)
	default:
		if known, ok := m.cached(key); ok && now.Before(known.expiresAt) {
			known.refreshAt = now.Add(outagePause)
			if known.refreshAt.After(known.expiresAt) {
				known.refreshAt = known.expiresAt
			}
			m.store(key, known)
			return known.value, nil
		}
	}
	return value, err
}

func (m *answerCache[T]) store(key digest, e entry[T]) {
	m.accepted.Add(key, e, e.expiresAt.Sub(m.now()))
}
