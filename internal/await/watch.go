// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package await

import "golang.org/x/sys/unix"

// A Watch notifies of changes in directories by a signal (fcntl(2), F_NOTIFY). This
// interface needs only a descriptor for each directory. The newer inotify(7) needs an
// instance, and each user of a node has a limited number of them
// (fs.inotify.max_user_instances, 128 by default), which the kubelet and other
// containers of that user share (ADR 0012).
type Watch []directory

type directory struct {
	path   string
	events int
	fd     int // -1 while the directory isn't watched
}

// The events after which a file may exist, or may not be empty any more
// (linux/fcntl.h). The kernel reports a file that is moved into the directory as
// created. A downward API volume renames a symbolic link.
const (
	modified = 0x2  // DN_MODIFY
	created  = 0x4  // DN_CREATE
	renamed  = 0x10 // DN_RENAME
)

// NewWatch returns a watch of directories: for files that are created in or moved into
// them, and, if written is true, for files that are written to.
func NewWatch(paths []string, written bool) Watch {
	var w Watch
	events := created | renamed
	if written {
		events |= modified
	}
	for _, path := range paths {
		w = append(w, directory{path, events, -1})
	}
	return w
}

// Arm requests one notification, for the next change. A directory that can't be
// watched, for instance because it doesn't exist yet, is tried again at the next call.
func (w Watch) Arm() {
	for i := range w {
		w[i].arm()
	}
}

func (d *directory) arm() {
	if d.fd >= 0 && !d.isCurrent() {
		d.close()
	}
	if d.fd < 0 {
		fd, err := unix.Open(d.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		d.fd = fd
		// SIGCHLD notifies the supervisor of changes anyway, and the kernel doesn't
		// queue it.
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETSIG, int(unix.SIGCHLD)); err != nil {
			d.close()
			return
		}
	}
	if _, err := unix.FcntlInt(uintptr(d.fd), unix.F_NOTIFY, d.events); err != nil {
		d.close()
	}
}

// isCurrent reports whether the watched directory still has its path. Another one may have
// taken its place.
func (d *directory) isCurrent() bool {
	var watched, found unix.Stat_t
	return unix.Fstat(d.fd, &watched) == nil && unix.Stat(d.path, &found) == nil &&
		watched.Dev == found.Dev && watched.Ino == found.Ino
}

func (d *directory) close() {
	if d.fd >= 0 {
		_ = unix.Close(d.fd)
		d.fd = -1
	}
}

// complete reports whether all directories are watched.
func (w Watch) complete() bool {
	for _, d := range w {
		if d.fd < 0 {
			return false
		}
	}
	return len(w) > 0
}

func (w Watch) close() {
	for i := range w {
		w[i].close()
	}
}
