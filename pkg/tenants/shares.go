// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package tenants shares what there is little of between tenants who don't trust
// each other: each gets a part of it at most, so that whoever asks for much waits,
// or loses, for himself.
package tenants

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Shares hands out something of which there is a limited amount, and to each
// tenant a share of it at most. A tenant that uses its share up waits for
// itself; as long as few do, the others don't notice.
type Shares struct {
	share int64 // of a tenant
	all   *semaphore.Weighted

	mu      sync.Mutex
	tenants map[string]*tenantShare
}

type tenantShare struct {
	*semaphore.Weighted

	users int // that hold some of it, or wait for it
}

// NewShares returns Shares of an amount, with a tenant's share of it.
func NewShares(all, share int64) *Shares {
	return &Shares{share: share, all: semaphore.NewWeighted(all), tenants: map[string]*tenantShare{}}
}

// Acquire waits until the tenant may have n, or all of its share if that is
// less. Release gives back what it got. The error is the context's.
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
	return sync.OnceFunc(func() {
		s.all.Release(n)
		own.Release(n)
		s.leave(tenant)
	}), nil
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
