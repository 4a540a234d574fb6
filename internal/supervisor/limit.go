// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"syscall"
	"time"
)

// A limit ends a process that takes too long. The zero value never does.
type limit struct {
	process *process // the leader of a process group
	grace   time.Duration

	next    time.Time // when act has something to do, zero for never
	reached bool      // the time was up before the process ended
	killErr error     // why the process can't be killed
}

// newLimit returns a limit that starts now. After the time after, it sends SIGTERM to
// the process, and after the grace period SIGKILL to its process group.
func newLimit(p *process, after, grace time.Duration) *limit {
	l := &limit{process: p, grace: grace}
	if after > 0 {
		l.next = time.Now().Add(after)
	}
	return l
}

// act sends a signal that is due, and returns the time until the next one.
func (l *limit) act() time.Duration {
	if l.process.ended || l.next.IsZero() {
		return forever
	}
	if left := time.Until(l.next); left > 0 {
		return left
	}
	pid := l.process.pid
	if !l.reached {
		l.reached, l.next = true, time.Now().Add(l.grace)
		_ = syscall.Kill(pid, syscall.SIGTERM)
		_ = syscall.Kill(pid, syscall.SIGCONT) // a stopped process would handle no signal but SIGKILL
		return l.grace
	}
	l.next = time.Time{}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	l.killErr = syscall.Kill(pid, syscall.SIGKILL) // the process may have joined another group
	return forever
}
