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

// lockFile is a file in the directory of the logs, which no key is the name of.
const lockFile = "lock"

// lockPause lies between two tries.
const lockPause = 100 * time.Millisecond

// A Lock is on the directory of the logs, until it is released or the process ends.
type Lock struct{ file *os.File }

// LockDirectory keeps other processes from the directory of the logs, also on other
// nodes if it is on NFS. It waits for a predecessor that is still stopping.
func LockDirectory(ctx context.Context, directory string, patience time.Duration) (*Lock, error) {
	file, err := os.OpenFile(filepath.Join(directory, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the directory of the logs: %w; it has to exist, and to be writable for user %d", err, os.Getuid())
	}
	if err := lock(ctx, file, patience); err != nil {
		return nil, fmt.Errorf("locking the directory of the logs, %q: %w", directory, errors.Join(err, file.Close()))
	}
	return &Lock{file}, nil
}

func lock(ctx context.Context, file *os.File, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("another log service has had it for %v; only one at a time can use a directory: set the replicas of its Deployment to 1 and its strategy to Recreate, or give each a directory of its own", patience)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPause):
		}
	}
}

// Release lets the next one in.
func (l *Lock) Release() error { return l.file.Close() }
