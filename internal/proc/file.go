// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package proc

import (
	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/files"
)

// ErrIsPipe is the error for a FIFO, whose end may never come.
const ErrIsPipe = unix.ESPIPE

// ReadFile returns the content of a file, up to limit bytes. It never blocks: it
// rejects a FIFO.
func ReadFile(name string, limit int) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO {
		return nil, ErrIsPipe
	}
	return files.ReadAll(fd, limit)
}

// ReadDirectory returns the names in a directory. os.ReadDir would make each binary in pods
// 33 KB larger.
func ReadDirectory(name string) (names []string, _ error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, 4<<10)
	for {
		n, err := unix.ReadDirent(fd, buf)
		switch {
		case err == unix.EINTR:
		case err != nil, n == 0:
			return names, err
		default:
			_, _, names = unix.ParseDirent(buf[:n], -1, names)
		}
	}
}

// ReadHead returns the first n bytes of a file, or all bytes of a shorter file.
func ReadHead(name string, n int) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, n)
	n, err = unix.Read(fd, buf)
	return buf[:max(n, 0)], err
}
