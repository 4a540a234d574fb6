// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package await

import "golang.org/x/sys/unix"

// A watch tells of changes in directories, by a signal (fcntl(2), F_NOTIFY). It
// is the kernel's oldest way, and takes nothing but a descriptor for each
// directory. inotify(7), the newer one, takes an instance of which each user of a
// node has but a number (fs.inotify.max_user_instances, 128 by default), the
// kubelet and the other containers of that user included (ADR 0012).
type watch []directory

type directory struct {
	path   string
	events int
	fd     int // -1 while it isn't watched
}

// The events after which a file may be there, or not be empty, that wasn't
// before: values of linux/fcntl.h. A file that is moved into the directory counts
// as created; a downward API volume renames a symbolic link.
const (
	modified = 0x2  // DN_MODIFY
	created  = 0x4  // DN_CREATE
	renamed  = 0x10 // DN_RENAME
)

func newWatch(paths []string, written bool) watch {
	var w watch
	events := created | renamed
	if written {
		events |= modified
	}
	for _, path := range paths {
		w = append(w, directory{path, events, -1})
	}
	return w
}

// arm has the next change, but no other, told. A directory that can't be watched,
// perhaps because it isn't there yet, is tried again the next time.
func (w watch) arm() {
	for i := range w {
		w[i].arm()
	}
}

func (d *directory) arm() {
	if d.fd < 0 {
		fd, err := unix.Open(d.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		d.fd = fd
		// One that tells of changes anyway, and doesn't queue up.
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETSIG, int(unix.SIGCHLD)); err != nil {
			d.close()
			return
		}
	}
	if _, err := unix.FcntlInt(uintptr(d.fd), unix.F_NOTIFY, d.events); err != nil {
		d.close()
	}
}

func (d *directory) close() {
	if d.fd >= 0 {
		_ = unix.Close(d.fd)
		d.fd = -1
	}
}

// complete reports whether the kernel tells of all changes.
func (w watch) complete() bool {
	for _, d := range w {
		if d.fd < 0 {
			return false
		}
	}
	return len(w) > 0
}

func (w watch) close() {
	for i := range w {
		w[i].close()
	}
}
