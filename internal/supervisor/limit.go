// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"syscall"
	"time"
)

// A limit ends a process that takes too long. The zero value is none.
type limit struct {
	process *process // which leads a process group
	grace   time.Duration

	next    time.Time // when something is to be done, zero if nothing is
	reached bool      // the time was up before the process was
	killErr error     // why the process can't be killed
}

// newLimit returns a limit that begins to count now. When the time is up, the
// process gets SIGTERM, and after the grace period its group SIGKILL.
func newLimit(p *process, after, grace time.Duration) *limit {
	l := &limit{process: p, grace: grace}
	if after > 0 {
		l.next = time.Now().Add(after)
	}
	return l
}

// act does what is due, and returns the time until the next thing is.
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
		_ = syscall.Kill(pid, syscall.SIGCONT) // or a stopped one would hear of nothing but SIGKILL
		return l.grace
	}
	l.next = time.Time{}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	l.killErr = syscall.Kill(pid, syscall.SIGKILL) // it may have joined another group
	return forever
}
