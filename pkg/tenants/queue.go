// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"sync"
)

// A Queue holds work of tenants until somebody has time for it. The tenants take turns, so
// that the work of one waits for at most one piece of work of each other one. Of a tenant,
// one piece is done at a time: work that takes long delays the tenant's own.
type Queue[W any] struct {
	size, share int // pieces of work

	mu      sync.Mutex
	changed *sync.Cond
	count   int
	lines   map[string]*line[W]
	turns   []*line[W] // with work, and with none of it being done
}

// A line is the work of one tenant, the oldest first.
type line[W any] struct {
	tenant string
	work   []W
	busy   bool
}

// NewQueue returns a Queue for so many pieces of work, and for a share of them of each tenant.
func NewQueue[W any](size, share int) *Queue[W] {
	q := &Queue[W]{size: size, share: share, lines: map[string]*line[W]{}}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// Add appends the work of a tenant. It returns the work that has no room then: that work if
// the tenant's share is used up or nobody has more, or else the newest of the tenant that
// has most.
func (q *Queue[W]) Add(tenant string, work W) (dropped W, full bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := q.lines[tenant]
	if own == nil {
		own = &line[W]{tenant: tenant}
	}
	if len(own.work) >= q.share {
		return work, true
	}
	if q.count >= q.size {
		longest := q.longest()
		if longest == nil || len(longest.work) <= len(own.work)+1 {
			return work, true
		}
		newest := len(longest.work) - 1
		dropped, full, longest.work = longest.work[newest], true, longest.work[:newest]
		q.count--
	}
	q.lines[tenant] = own
	own.work = append(own.work, work)
	q.count++
	if len(own.work) == 1 && !own.busy {
		q.await(own)
	}
	return dropped, full
}

// longest returns the line with the most work.
func (q *Queue[W]) longest() (most *line[W]) {
	for _, l := range q.lines {
		if most == nil || len(l.work) > len(most.work) {
			most = l
		}
	}
	return most
}

// await has a line wait for its turn.
func (q *Queue[W]) await(l *line[W]) {
	q.turns = append(q.turns, l)
	q.changed.Signal()
}

// Len returns how many pieces of work wait.
func (q *Queue[W]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count
}

// Do does the work with so many goroutines until ctx is done, and returns when the last
// piece that was begun is done.
func (q *Queue[W]) Do(ctx context.Context, goroutines int, do func(context.Context, W)) {
	stop := context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.changed.Broadcast()
	})
	defer stop()
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for {
				l, work, ok := q.next(ctx)
				if !ok {
					return
				}
				do(ctx, work)
				q.done(l)
			}
		})
	}
	all.Wait()
}

// next waits for work, and returns it with its line.
func (q *Queue[W]) next(ctx context.Context) (l *line[W], work W, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.turns) == 0 && ctx.Err() == nil {
		q.changed.Wait()
	}
	if ctx.Err() != nil {
		return nil, work, false
	}
	l, q.turns = q.turns[0], q.turns[1:]
	work, l.work, l.busy = l.work[0], l.work[1:], true
	q.count--
	return l, work, true
}

func (q *Queue[W]) done(l *line[W]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l.busy = false
	if len(l.work) == 0 {
		delete(q.lines, l.tenant)
		return
	}
	q.await(l)
}
