// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"sync"
	"time"
)

const (
	// firstPause and longestPause bound the time until a request is sent again.
	firstPause, longestPause = time.Second, time.Minute
)

// A gate lets workers send. While the destination fails, one of them tries with one stream.
type gate struct {
	now func() time.Time

	mu       sync.Mutex
	failures int // in a row
	until    time.Time
	trying   bool
	opened   chan struct{} // closed when a worker that waits has to look again
}

func newGate(now func() time.Time) *gate { return &gate{now: now, opened: make(chan struct{})} }

// enter returns whether the worker may send, and whether it is the one that tries. If not,
// it has to wait for as long, or until opened is closed.
func (g *gate) enter() (may, tries bool, wait time.Duration, opened <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if wait := g.until.Sub(g.now()); wait > 0 {
		return false, false, wait, g.opened
	}
	if g.failures > 0 && g.trying {
		return false, false, longestPause, g.opened
	}
	g.trying = g.failures > 0
	return true, g.trying, 0, nil
}

// leave ends what enter allowed to the worker that tries.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trying = false
	g.wake()
}

func (g *gate) wake() {
	close(g.opened)
	g.opened = make(chan struct{})
}

// failed notes a failure, and returns until when nothing is sent.
func (g *gate) failed(after time.Duration) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now().Before(g.until) { // another worker's request has failed at the same time
		return g.until
	}
	pause := min(longestPause, firstPause<<min(g.failures, 10))
	g.failures++
	g.until = g.now().Add(max(pause, after))
	return g.until
}

// worked notes that the destination answers.
func (g *gate) worked() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failures > 0 {
		g.failures, g.until = 0, time.Time{}
		g.wake()
	}
}
