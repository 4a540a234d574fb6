// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package files reads and writes whole files by their descriptors. It replaces package
// os in the supervisor, because the poller of os would take a good part of the
// supervisor's start-up time.
package files

import (
	"slices"

	"golang.org/x/sys/unix"
)

// ErrTooLarge is the error for a file larger than the limit.
const ErrTooLarge = unix.EFBIG

// initialSize is the capacity of the first buffer, in bytes. Most files are smaller.
const initialSize = 16 << 10

// ReadAll reads the rest of a file, up to limit bytes.
func ReadAll(fd, limit int) ([]byte, error) {
	buf := make([]byte, 0, min(limit, initialSize)+1)
	for {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, len(buf))
		}
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, err
		case n == 0:
			return buf, nil
		case len(buf)+n > limit:
			return nil, ErrTooLarge
		default:
			buf = buf[:len(buf)+n]
		}
	}
}

// WriteAll writes data with write, which has the parameters and results of write(2).
func WriteAll(fd int, data []byte, write func(fd int, data []byte) (int, error)) error {
	for len(data) > 0 {
		n, err := write(fd, data)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		case n == 0: // which POSIX allows, and a loop could repeat for ever
			return unix.EIO
		default:
			data = data[n:]
		}
	}
	return nil
}
