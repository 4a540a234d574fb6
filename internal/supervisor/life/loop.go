// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package life

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/signals"
)

// The supervisor waits in one function, Until. It sleeps there until a signal arrives
// (package signals). That includes SIGCHLD, by which the kernel reports children and changes
// in watched directories. No other goroutine has access to the supervisor's data, so it
// needs no locks.

// A Check acts on what has changed. It returns the time after which to call it again if
// no signal arrives: Forever if only a signal can change anything, Done if the wait is
// over.
type Check func() (pause time.Duration)

// What a Check returns in place of a time.
const (
	Done    time.Duration = -1
	Forever               = signals.Forever
)

// A Part is a feature that has work to do while the loop waits for something else.
type Part interface {
	// Act does what is due, and returns the time until the next call.
	Act() (pause time.Duration)
	// Poll appends the descriptors on whose events the caller calls Act.
	Poll(fds []unix.PollFd) []unix.PollFd
}

// Add has the loop serve a part from now on.
func (l *Life) Add(p Part) { l.parts = append(l.parts, p) }

// Until repeats the check until it returns Done, and reaps children meanwhile. An error
// means that there is nothing left to wait for.
func (l *Life) Until(look Check) error {
	signals.OpenWake()
	for {
		if err := l.reap(); err != nil {
			return err
		}
		l.RecordSignals()
		l.ReportRefused()
		pause := look()
		if pause == Done {
			return nil
		}
		for _, p := range l.parts {
			pause = min(pause, p.Act())
		}
		l.sleep(pause)
	}
}

// sleep returns after the pause, or earlier if a signal has arrived since the last call
// returned. Meanwhile it serves the parts and the Output.
func (l *Life) sleep(pause time.Duration) {
	var fds []unix.PollFd
	for _, p := range l.parts {
		fds = p.Poll(fds)
	}
	if l.output == nil {
		signals.Sleep(pause, fds)
		return
	}
	pause = min(pause, l.output.Advance())
	if l.Phase != "" && l.output.StatusChanged() {
		l.SetPhase(l.Phase)
	}
	signals.Sleep(pause, l.output.Poll(fds))
}

// At returns the time until t, or Done if it is over.
func At(t time.Time) time.Duration {
	left := time.Until(t)
	if left <= 0 {
		return Done
	}
	return left
}

// Left returns the time until t, at least 0.
func Left(t time.Time) time.Duration { return max(time.Until(t), 0) }
