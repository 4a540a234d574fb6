// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package budget bounds the memory of requests before they allocate it.
package budget

import "sync"

// A Budget counts the bytes that requests hold. Each client has a share of it, so that
// one client can't block the others.
type Budget struct {
	total, share int64

	mu      sync.Mutex
	inUse   int64
	inUseBy map[string]int64
}

// New returns a budget of total bytes, of which one client can hold share bytes.
func New(total, share int64) *Budget {
	return &Budget{total: total, share: share, inUseBy: map[string]int64{}}
}

// TryAcquire acquires bytes for a client, and reports whether the budget has them.
func (b *Budget) TryAcquire(client string, bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inUse+bytes > b.total || b.inUseBy[client]+bytes > b.share {
		return false
	}
	b.inUse += bytes
	b.inUseBy[client] += bytes
	return true
}

// Release undoes TryAcquire.
func (b *Budget) Release(client string, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inUse -= bytes
	if b.inUseBy[client] -= bytes; b.inUseBy[client] == 0 {
		delete(b.inUseBy, client)
	}
}

// InUse returns the bytes that are acquired and not released.
func (b *Budget) InUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inUse
}
