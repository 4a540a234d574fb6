// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package tenants divides scarce resources between tenants that don't trust each other.
// Each tenant gets at most its share, so that a tenant with a large demand waits, or
// loses values, at its own expense.
package tenants

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Shares hands out a limited amount of a resource, and to each tenant at most its share.
// A tenant that has used its share up waits for itself; as long as few tenants do, the
// others aren't affected.
type Shares struct {
	share int64 // of each tenant
	all   *semaphore.Weighted

	mu      sync.Mutex
	tenants map[string]*tenantShare
}

type tenantShare struct {
	*semaphore.Weighted

	users int // holders and waiters
}

// NewShares returns Shares of an amount, with a share for each tenant.
func NewShares(all, share int64) *Shares {
	return &Shares{share: share, all: semaphore.NewWeighted(all), tenants: map[string]*tenantShare{}}
}

// Acquire waits until n is available for the tenant, or the tenant's whole share if that
// is less. Release returns that amount. The error is the context's.
func (s *Shares) Acquire(ctx context.Context, tenant string, n int64) (release func(), err error) {
	n = min(n, s.share)
	own := s.join(tenant)
	if err := own.Acquire(ctx, n); err != nil {
		s.leave(tenant)
		return nil, err
	}
	if err := s.all.Acquire(ctx, n); err != nil {
		own.Release(n)
		s.leave(tenant)
		return nil, err
	}
	return s.releaser(tenant, own, n), nil
}

// TryAcquire is Acquire without waiting. It reports whether n is available now.
func (s *Shares) TryAcquire(tenant string, n int64) (release func(), ok bool) {
	n = min(n, s.share)
	own := s.join(tenant)
	if !own.TryAcquire(n) {
		s.leave(tenant)
		return nil, false
	}
	if !s.all.TryAcquire(n) {
		own.Release(n)
		s.leave(tenant)
		return nil, false
	}
	return s.releaser(tenant, own, n), true
}

// releaser returns a function that returns n once.
func (s *Shares) releaser(tenant string, own *tenantShare, n int64) func() {
	return sync.OnceFunc(func() {
		s.all.Release(n)
		own.Release(n)
		s.leave(tenant)
	})
}

func (s *Shares) join(tenant string) *tenantShare {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, ok := s.tenants[tenant]
	if !ok {
		own = &tenantShare{Weighted: semaphore.NewWeighted(s.share)}
		s.tenants[tenant] = own
	}
	own.users++
	return own
}

func (s *Shares) leave(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.tenants[tenant]; own.users > 1 {
		own.users--
	} else {
		delete(s.tenants, tenant)
	}
}
