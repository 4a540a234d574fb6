// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The supervisor waits in one function, until. It sleeps there until a signal arrives
// (signals.go). That includes SIGCHLD, by which the kernel reports children and changes
// in watched directories. No other goroutine has access to the supervisor's data, so it
// needs no locks.

// wakeFD is an eventfd(2) that the signal handlers write to, -1 while there is none.
var wakeFD int32 = -1

// signalWakes counts the times that a signal has ended sleep.
var signalWakes uint64

// SignalWakes returns a number that changes when a signal wakes the loop. That may be the
// SIGCHLD of a watched directory.
func SignalWakes() uint64 { return signalWakes }

// A check acts on what has changed. It returns the time after which to call it again if
// no signal arrives: forever if only a signal can change anything, done if the wait is
// over.
type check func() (pause time.Duration)

const (
	done    time.Duration = -1
	forever time.Duration = math.MaxInt64
)

// until repeats the check until it returns done, and reaps children meanwhile. An error
// means that there is nothing left to wait for.
func (s *supervision) until(look check) error {
	openWake()
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

// openWake creates the eventfd by which signals end sleep.
func openWake() {
	if atomic.LoadInt32(&wakeFD) >= 0 {
		return
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return
	}
	atomic.StoreInt32(&wakeFD, int32(fd)) //nolint:gosec // descriptors are ints of C
	catchChildren()
}

// pollInterval is the longest sleep without an eventfd.
const pollInterval = 20 * time.Millisecond

// sleep returns after the pause, or earlier if a signal has arrived since the last call
// returned, or if a descriptor is ready.
func sleep(pause time.Duration, ready []unix.PollFd) {
	fd := atomic.LoadInt32(&wakeFD)
	if fd < 0 {
		pause = min(pause, pollInterval)
	}
	var timeout *unix.Timespec
	if pause != forever {
		t := unix.NsecToTimespec(pause.Nanoseconds())
		timeout = &t
	}
	// ppoll(2) ignores a negative descriptor.
	fds := append([]unix.PollFd{{Fd: fd, Events: unix.POLLIN}}, ready...)
	_, err := unix.Ppoll(fds, timeout, nil)
	switch {
	case fds[0].Revents != 0:
		var count [8]byte
		_, _ = unix.Read(int(fd), count[:])
		signalWakes++
	case err != nil && err != unix.EINTR: // out of memory
		time.Sleep(min(pause, pollInterval))
	}
}
