// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/files"
)

// The files in a container's directory. Each is written under its .new name and then
// renamed, so that readers never see a part of it.
const (
	lockName     = "/lock"
	stateName    = "/state"
	newLockName  = "/lock.new"
	newStateName = "/state.new"
)

var (
	errNotRegular = errors.New("not a regular file")
	errTooLarge   = errors.New("larger than " + strconv.Itoa(maxFileSize) + " bytes")
)

// readRegular returns the content of a regular file and its open descriptor, which the
// caller closes. It doesn't block on a FIFO and doesn't follow a symbolic link: another
// container chose what is at the path.
func readRegular(path string) (fd int, data []byte, err error) {
	fd, err = unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
	case unix.ELOOP, unix.ENXIO: // a symbolic link; a socket
		return -1, nil, errNotRegular
	default:
		return -1, nil, err
	}
	data, err = readOpened(fd)
	if err != nil {
		_ = unix.Close(fd)
		return -1, nil, err
	}
	return fd, data, nil
}

func readOpened(fd int) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errNotRegular
	}
	data, err := files.ReadAll(fd, maxFileSize)
	if errors.Is(err, files.ErrTooLarge) {
		err = errTooLarge
	}
	return data, err
}

// isLocked reports whether a process holds the lock of a file.
func isLocked(fd int) (bool, error) {
	lock := unix.Flock_t{Type: unix.F_RDLCK}
	if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &lock); err != nil {
		return false, err
	}
	return lock.Type != unix.F_UNLCK, nil
}

// lockFile locks a new file. It fails if another process holds a lock on it, which
// takes a name of the file.
func lockFile(fd int) error {
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
}

// linkFile gives a file without a name this path, in the place of a file that an earlier
// incarnation left there.
func linkFile(fd int, path string) error {
	if err := unix.Unlink(path); err != nil && err != unix.ENOENT {
		return err
	}
	return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
}

// worldReadable is the file mode for readers in other containers, which may run as any
// user.
const worldReadable = 0o644

// createFile replaces the file at path by a new one with this mode, whatever the umask
// is.
func createFile(path string, mode uint32) (fd int, err error) {
	if err := unix.Unlink(path); err != nil && err != unix.ENOENT {
		return -1, err
	}
	fd, err = unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return -1, err
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
