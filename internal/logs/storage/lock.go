// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockFileName is the name of a file in the directory of the logs. No key is called so.
const lockFileName = "lock"

// lockPause is the pause between two attempts.
const lockPause = 100 * time.Millisecond

// A Lock is an exclusive lock of the directory of the logs, until Release or the end of
// the process.
type Lock struct{ file *os.File }

// LockDirectory locks the directory of the logs against other processes, on NFS also
// against those on other nodes. It waits up to timeout for a predecessor that is
// stopping.
func LockDirectory(ctx context.Context, directory string, timeout time.Duration) (*Lock, error) {
	file, err := os.OpenFile(filepath.Join(directory, lockFileName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the directory of the logs: %w; it has to exist, and to be writable for user %d", err, os.Getuid())
	}
	if err := lock(ctx, file, timeout); err != nil {
		return nil, fmt.Errorf("locking the directory of the logs, %q: %w", directory, errors.Join(err, file.Close()))
	}
	return &Lock{file}, nil
}

func lock(ctx context.Context, file *os.File, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("another log service has held the lock for %v; only one process at a time can use a directory: set the replicas of its Deployment to 1 and its strategy to Recreate, or give each a directory of its own", timeout)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPause):
		}
	}
}

// Release unlocks the directory.
func (l *Lock) Release() error { return l.file.Close() }
