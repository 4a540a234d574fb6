// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package signals

import (
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Forever is the pause of a Sleep that only a signal or a descriptor ends.
const Forever time.Duration = math.MaxInt64

// wakeFD is an eventfd(2) that the signal handlers write to, -1 while there is none.
var wakeFD int32 = -1

// signalWakes counts the times that a signal has ended Sleep.
var signalWakes uint64

// Wakes returns a number that changes when a signal ends Sleep. That may be the
// SIGCHLD of a watched directory.
func Wakes() uint64 { return signalWakes }

// OpenWake creates the eventfd by which signals, SIGCHLD among them, end Sleep.
func OpenWake() {
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

// Sleep returns after the pause, or earlier if a signal has arrived since the last call
// returned, or if a descriptor is ready.
func Sleep(pause time.Duration, ready []unix.PollFd) {
	fd := atomic.LoadInt32(&wakeFD)
	if fd < 0 {
		pause = min(pause, pollInterval)
	}
	var timeout *unix.Timespec
	if pause != Forever {
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

// Wake ends the current or the next Sleep, as a signal does.
func Wake() {
	if fd := atomic.LoadInt32(&wakeFD); fd >= 0 {
		_, _ = unix.Write(int(fd), []byte{0, 0, 0, 1, 0, 0, 0, 0})
	}
}
