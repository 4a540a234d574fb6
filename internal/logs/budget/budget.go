// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package budget bounds what requests hold, such as memory, before they take it.
package budget

import "sync"

// A Budget counts what requests hold. Each request is on the account of one holder or
// more, such as a namespace and a pod of it, and each holder has a share, so that none
// can use up what others need.
type Budget struct {
	total  int64
	shares []int64

	mu      sync.Mutex
	inUse   int64
	inUseBy map[holder]int64
}

// A holder is named by the caller, at one of the levels of shares.
type holder struct {
	level int
	name  string
}

// New returns a budget of a total. The first holder of a request can hold the first
// share, the second the second, and so on.
func New(total int64, shares ...int64) *Budget {
	return &Budget{total: total, shares: shares, inUseBy: map[holder]int64{}}
}

// TryAcquire takes an amount for these holders, one for each share, and reports whether
// the budget has it.
func (b *Budget) TryAcquire(amount int64, holders ...string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inUse+amount > b.total {
		return false
	}
	for level, name := range holders {
		if b.inUseBy[holder{level, name}]+amount > b.shares[level] {
			return false
		}
	}
	b.inUse += amount
	for level, name := range holders {
		b.inUseBy[holder{level, name}] += amount
	}
	return true
}

// Release undoes TryAcquire.
func (b *Budget) Release(amount int64, holders ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inUse -= amount
	for level, name := range holders {
		if b.inUseBy[holder{level, name}] -= amount; b.inUseBy[holder{level, name}] == 0 {
			delete(b.inUseBy, holder{level, name})
		}
	}
}

// InUse returns what is taken and not released.
func (b *Budget) InUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inUse
}
