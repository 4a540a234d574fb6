// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/files"
	"github.com/entrypointer/entrypointer/internal/signals"
)

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

func writeAll(fd int, data []byte) error { return files.WriteAll(fd, data, signals.Write) }
