// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"sync/atomic"
	"syscall"
	"time"
)

// A limit ends a process that takes too long. The zero value is none.
type limit struct {
	timer   *time.Timer
	reached atomic.Bool
}

// start begins to count. When the time is up, the process pid, which leads a
// process group, gets SIGTERM, and after the grace period its group SIGKILL.
func (l *limit) start(pid int, after, grace time.Duration) {
	if after == 0 {
		return
	}
	l.timer = time.AfterFunc(after, func() {
		l.reached.Store(true)
		_ = syscall.Kill(pid, syscall.SIGTERM)
		time.Sleep(grace)
		if l.reached.Load() {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
	})
}

// stop tells whether the time was up before the process was.
func (l *limit) stop() bool {
	if l.timer == nil {
		return false
	}
	l.timer.Stop()
	return l.reached.Swap(false)
}
