// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package await

import (
	"time"

	"golang.org/x/sys/unix"
)

// events are those after which a file in a directory may be there, or not be
// empty, that wasn't before. A downward API volume renames a symbolic link.
// Each single write (IN_MODIFY) would be too much: a directory may be busy.
const events = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_CLOSE_WRITE | unix.IN_ONLYDIR

// spare is how many more instances of inotify a user must be able to have when
// one of ours begins to watch: the kernel gives each user of a node but a number
// of them (fs.inotify.max_user_instances, 128 by default), and those who run as
// the same user in other containers, or the kubelet, may need some.
const spare = 32

// A watch tells of changes in directories.
type watch struct {
	fd      int // inotify, -1 if there is none
	missing int // how many directories aren't watched
}

func newWatch(directories []string) watch {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return watch{fd: -1}
	}
	w := watch{fd: fd}
	if !others(spare) {
		w.close()
		return watch{fd: -1}
	}
	for _, dir := range directories {
		if _, err := unix.InotifyAddWatch(fd, dir, events); err != nil {
			w.missing++
		}
	}
	return w
}

// others reports whether as many instances are left. There is no other way to
// find out than to have them for a moment.
func others(n int) bool {
	var fds []int
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	for range n {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			return false
		}
		fds = append(fds, fd)
	}
	return true
}

func (w watch) complete() bool { return w.fd >= 0 && w.missing == 0 }

func (w watch) close() {
	if w.fd >= 0 {
		_ = unix.Close(w.fd)
	}
}

// sleep returns after the pause, or earlier if a directory has changed.
func (w watch) sleep(pause time.Duration) (changed bool) {
	// The kernel passes over a descriptor that is negative.
	fds := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}} //nolint:gosec // descriptors are ints of C
	timeout := unix.NsecToTimespec(pause.Nanoseconds())
	n, err := unix.Ppoll(fds, &timeout, nil)
	switch {
	case err == unix.EINTR:
	case err != nil: // no memory for it
		time.Sleep(pause)
	case n > 0:
		w.drain()
		return true
	}
	return false
}

// drain forgets the events: which they are doesn't matter.
func (w watch) drain() {
	var buf [4096]byte
	for {
		if n, err := unix.Read(w.fd, buf[:]); err != unix.EINTR && n < len(buf)/2 {
			return
		}
	}
}
