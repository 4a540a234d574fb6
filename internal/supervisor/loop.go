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

// Whatever the supervisor waits for, it waits for in one place, until. There it
// sleeps, and is woken by each signal that comes to it (signals.go): SIGCHLD, too,
// by which the kernel tells of children and of watched directories. It has no
// other goroutine, so nothing here has to be locked.

// wakeFD is an eventfd(2) that signal handlers write to, -1 while there is none.
var wakeFD int32 = -1

// A look acts on what it finds, and returns how long it takes until it has to look
// again if no signal comes before: forever if only a signal can bring news, done
// if there is nothing more to wait for.
type check func() (pause time.Duration)

const (
	done    time.Duration = -1
	forever time.Duration = math.MaxInt64
)

// until looks, and goes on to do so, until the look says that it is done. All the
// while it reaps. An error means that nothing is left to wait for.
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
		s.sleep(min(pause, s.checkStopWhen(), s.serveDependents(), s.tryStartupProbe()))
	}
}

// openWake makes sure that sleep is woken by signals.
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

// glance is the longest sleep where there is no eventfd.
const pollInterval = 20 * time.Millisecond

// sleep returns after the pause, or earlier if a signal has come since it returned
// the last time, or one of the descriptors is ready.
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
	// The kernel passes over a descriptor that is negative.
	fds := append([]unix.PollFd{{Fd: fd, Events: unix.POLLIN}}, ready...)
	_, err := unix.Ppoll(fds, timeout, nil)
	switch {
	case fds[0].Revents != 0:
		var count [8]byte
		_, _ = unix.Read(int(fd), count[:])
	case err != nil && err != unix.EINTR: // no memory for it
		time.Sleep(min(pause, pollInterval))
	}
}
