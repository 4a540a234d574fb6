// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/files"
)

// errIsPipe is the error for a FIFO, whose end may never come.
const errIsPipe = unix.ESPIPE

// readFile returns the content of a file, up to limit bytes. It never blocks: it
// rejects a FIFO.
func readFile(name string, limit int) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO {
		return nil, errIsPipe
	}
	return files.ReadAll(fd, limit)
}

// readDirectory returns the names in a directory.
func readDirectory(name string) (names []string, _ error) {
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

// readHead returns the first n bytes of a file, or all bytes of a shorter file.
func readHead(name string, n int) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, n)
	n, err = unix.Read(fd, buf)
	return buf[:max(n, 0)], err
}

// writeFile replaces the file at path atomically, by a rename. The temporary file has a
// unique name, because containers that share a volume may use the same path.
func writeFile(path string, data []byte) error {
	temporary := path + "." + strconv.FormatInt(time.Now().UnixNano(), 36)
	fd, err := unix.Open(temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	err = writeAll(fd, data)
	if closed := unix.Close(fd); err == nil {
		err = closed
	}
	if err == nil {
		err = unix.Rename(temporary, path)
	}
	if err != nil {
		_ = unix.Unlink(temporary)
	}
	return err
}

func writeAll(fd int, data []byte) error { return files.WriteAll(fd, data, Write) }
