// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"sync"
	"syscall"
	"time"
)

// A limit ends a process that takes too long. The zero value is none.
type limit struct {
	timer *time.Timer

	mu            sync.Mutex // nobody is sent a signal once it has stopped
	reached, over bool
}

// start begins to count. When the time is up, the process pid, which leads a
// process group, gets SIGTERM, and after the grace period its group SIGKILL.
func (l *limit) start(pid int, after, grace time.Duration) {
	if after == 0 {
		return
	}
	l.mu.Lock() // until the timer is there
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(after, func() {
		l.unlessOver(func() {
			l.reached = true
			_ = syscall.Kill(pid, syscall.SIGTERM)
			_ = syscall.Kill(pid, syscall.SIGCONT) // or a stopped one would hear of nothing but SIGKILL
			l.timer = time.AfterFunc(grace, func() {
				l.unlessOver(func() {
					_ = syscall.Kill(-pid, syscall.SIGKILL)
					_ = syscall.Kill(pid, syscall.SIGKILL) // it may have joined another group
				})
			})
		})
	})
}

func (l *limit) unlessOver(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		f()
	}
}

// stop tells whether the time was up before the process was.
func (l *limit) stop() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
	}
	return l.reached
}
