// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// predecessorTimeout bounds the wait for the directory's lock. A predecessor that is
// stopping holds it for shutdownTimeout at most.
const predecessorTimeout = 30 * time.Second

// openTimeout bounds opening and checking a bucket.
const openTimeout = time.Minute

// openBucket opens the store of the logs: a bucket, or a directory, which it locks.
func openBucket(ctx context.Context, s settings) (bucket storage.Bucket, closeBucket func() error, err error) {
	if s.bucket != "" {
		ctx, cancel := context.WithTimeout(ctx, openTimeout)
		defer cancel()
		store, err := storage.OpenObjectStore(ctx, s.bucket)
		if err != nil {
			return nil, nil, err
		}
		return store, store.Close, nil
	}
	lock, err := storage.LockDirectory(ctx, s.directory, predecessorTimeout)
	if err != nil {
		return nil, nil, err
	}
	files, err := storage.OpenFiles(s.directory)
	if err != nil {
		return nil, nil, errors.Join(err, lock.Release())
	}
	return files, func() error { return errors.Join(files.Close(), lock.Release()) }, nil
}

// withoutQuery returns the URL of a bucket without its options, for the service's own
// log.
func withoutQuery(bucket string) string {
	name, _, _ := strings.Cut(bucket, "?")
	return name
}
