// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pageserver

import (
	"context"
	"sync"
)

// A gate lets some in at the same time, and of each user fewer, so that a user leaves places for
// others.
type gate struct {
	most, ofUser int

	mu    sync.Mutex
	taken map[string]int // by user
	total int
	freed chan struct{} // closed when somebody leaves
}

func newGate(most, ofUser int) *gate {
	return &gate{most: most, ofUser: ofUser, taken: map[string]int{}, freed: make(chan struct{})}
}

// try takes a place, and reports whether there was one.
func (g *gate) try(user string) bool {
	taken, _ := g.take(user)
	return taken
}

// enter waits for a place until ctx is done, and reports whether there was one.
func (g *gate) enter(ctx context.Context, user string) bool {
	for {
		taken, freed := g.take(user)
		if taken {
			return true
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
}

// take takes a place, or returns what is closed when there may be one.
func (g *gate) take(user string) (taken bool, freed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.total >= g.most || g.taken[user] >= g.ofUser {
		return false, g.freed
	}
	g.total++
	g.taken[user]++
	return true, nil
}

// leave gives a place back.
func (g *gate) leave(user string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.total--
	if g.taken[user]--; g.taken[user] == 0 {
		delete(g.taken, user)
	}
	close(g.freed)
	g.freed = make(chan struct{})
}
