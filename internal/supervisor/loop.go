// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"time"

	"github.com/entrypointer/entrypointer/internal/signals"
)

// The supervisor waits in one function, until. It sleeps there until a signal arrives
// (package signals). That includes SIGCHLD, by which the kernel reports children and changes
// in watched directories. No other goroutine has access to the supervisor's data, so it
// needs no locks.

// A check acts on what has changed. It returns the time after which to call it again if
// no signal arrives: forever if only a signal can change anything, done if the wait is
// over.
type check func() (pause time.Duration)

const (
	done    time.Duration = -1
	forever               = signals.Forever
)

// until repeats the check until it returns done, and reaps children meanwhile. An error
// means that there is nothing left to wait for.
func (s *supervision) until(look check) error {
	signals.OpenWake()
	for {
		if err := s.reap(); err != nil {
			return err
		}
		s.recordSignals()
		s.reportRefused()
		pause := look()
		if pause == done {
			return nil
		}
		s.sleep(min(pause, s.watchWork(), s.serveDependents(), s.watchWriter(), s.tryStartupProbe()))
	}
}
