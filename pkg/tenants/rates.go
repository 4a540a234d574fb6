// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"sync"
	"time"
)

// Rates bounds how often each tenant does something: a burst at once, and once in a while
// after that.
type Rates struct {
	every time.Duration
	burst int

	mu      sync.Mutex
	whole   map[string]time.Time // when each tenant has its whole burst again
	tidying int                  // the number of tenants at which those with a whole burst are forgotten
}

// NewRates returns Rates that permit a burst, and one more after each interval.
func NewRates(every time.Duration, burst int) *Rates {
	return &Rates{every: every, burst: burst, whole: map[string]time.Time{}, tidying: 2 * leastTidying}
}

// leastTidying is the number of tenants that are worth no look at each of them.
const leastTidying = 64

// Accept reports whether a tenant may do it once more now, and counts that.
func (r *Rates) Accept(tenant string) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	whole := r.whole[tenant]
	if whole.Before(now) {
		whole = now
	}
	whole = whole.Add(r.every)
	if whole.Sub(now) > time.Duration(r.burst)*r.every {
		return false
	}
	r.whole[tenant] = whole
	if len(r.whole) >= r.tidying {
		r.tidy(now)
	}
	return true
}

// tidy forgets tenants that have their whole burst, of which nothing needs to be known.
func (r *Rates) tidy(now time.Time) {
	for tenant, whole := range r.whole {
		if !whole.After(now) {
			delete(r.whole, tenant)
		}
	}
	r.tidying = 2 * max(len(r.whole), leastTidying)
}
