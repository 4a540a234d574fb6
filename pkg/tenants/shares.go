// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package tenants divides scarce resources between tenants that don't trust each other.
// Each tenant gets at most its share, so that a tenant with a large demand waits, or
// loses values, at its own expense.
package tenants

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// Shares hands out a limited amount of a resource, and to each holder at most its share. A
// holder that has used its share up waits for itself; as long as few holders do, the
// others aren't affected.
//
// Holders form levels, such as namespaces and the pods of each: what a request takes
// counts for its holder at each level.
type Shares struct {
	shares []int64 // of each holder, by level
	all    *semaphore.Weighted
	inUse  atomic.Int64

	mu      sync.Mutex
	holders map[holder]*holderShare
}

// A holder is named by the caller, at one of the levels.
type holder struct {
	level int
	name  string
}

// A holderShare is the share of a holder that holds a part of it, or waits for one.
type holderShare struct {
	free    *semaphore.Weighted
	inUse   int64
	waiting int // requests
}

// NewShares returns Shares of an amount, with a share for each holder at each level. The
// levels begin with the largest shares.
func NewShares(all int64, shares ...int64) *Shares {
	return &Shares{shares: shares, all: semaphore.NewWeighted(all), holders: map[holder]*holderShare{}}
}

// Acquire waits until n is available for these holders, one for each level, or a whole
// share if that is less. release returns that amount. The error is the context's.
func (s *Shares) Acquire(ctx context.Context, n int64, holders ...string) (release func(), err error) {
	n = min(n, slices.Min(s.shares))
	wait := func(from *semaphore.Weighted) bool {
		err = from.Acquire(ctx, n)
		return err == nil
	}
	if !s.take(n, holders, wait) {
		return nil, err
	}
	return sync.OnceFunc(func() { s.Release(n, holders...) }), nil
}

// TryAcquire takes n for these holders, one for each level, if all of it is available now,
// and reports whether it was. Release returns the amount.
func (s *Shares) TryAcquire(n int64, holders ...string) bool {
	return s.take(n, holders, func(from *semaphore.Weighted) bool { return from.TryAcquire(n) })
}

// take takes n from the share of each holder, the smallest share first, so that a holder
// waits at its own expense, and then from all.
func (s *Shares) take(n int64, holders []string, from func(*semaphore.Weighted) bool) bool {
	for level, name := range slices.Backward(holders) {
		share := s.join(holder{level, name})
		taken := from(share.free)
		s.mu.Lock()
		share.waiting--
		if taken {
			share.inUse += n
		}
		s.forgetUnused(holder{level, name}, share)
		s.mu.Unlock()
		if !taken {
			s.giveBack(n, level+1, holders)
			return false
		}
	}
	if !from(s.all) {
		s.giveBack(n, 0, holders)
		return false
	}
	s.inUse.Add(n)
	return true
}

// join returns the share of a holder, of which a request takes something next.
func (s *Shares) join(h holder) *holderShare {
	s.mu.Lock()
	defer s.mu.Unlock()
	share := s.holders[h]
	if share == nil {
		share = &holderShare{free: semaphore.NewWeighted(s.shares[h.level])}
		s.holders[h] = share
	}
	share.waiting++
	return share
}

// forgetUnused drops the share of a holder that has nothing.
func (s *Shares) forgetUnused(h holder, share *holderShare) {
	if share.inUse == 0 && share.waiting == 0 {
		delete(s.holders, h)
	}
}

// Release returns n, which may be the sum of several amounts or a part of one.
func (s *Shares) Release(n int64, holders ...string) {
	if n == 0 {
		return
	}
	s.inUse.Add(-n)
	s.all.Release(n)
	s.giveBack(n, 0, holders)
}

// giveBack returns n to the holders from a level on.
func (s *Shares) giveBack(n int64, level int, holders []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; level < len(holders); level++ {
		h := holder{level, holders[level]}
		share := s.holders[h]
		share.inUse -= n
		share.free.Release(n)
		s.forgetUnused(h, share)
	}
}

// InUse returns what is taken and not returned.
func (s *Shares) InUse() int64 { return s.inUse.Load() }
