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

// predecessor is how long one that stops may still have the directory: as long as
// the last answers take (lastAnswers), and some.
const predecessor = 30 * time.Second

// openLimit is what opening a bucket and trying it may take.
const openLimit = time.Minute

// openBucket opens what the logs are kept in, a directory for this process alone.
func openBucket(ctx context.Context, s settings) (bucket storage.Bucket, closeBucket func() error, err error) {
	if s.bucket != "" {
		ctx, cancel := context.WithTimeout(ctx, openLimit)
		defer cancel()
		store, err := storage.OpenObjectStore(ctx, s.bucket)
		if err != nil {
			return nil, nil, err
		}
		return store, store.Close, nil
	}
	lock, err := storage.LockDirectory(ctx, s.directory, predecessor)
	if err != nil {
		return nil, nil, err
	}
	files, err := storage.OpenFiles(s.directory)
	if err != nil {
		return nil, nil, errors.Join(err, lock.Release())
	}
	return files, func() error { return errors.Join(files.Close(), lock.Release()) }, nil
}

// withoutQuery is a bucket's URL for logs.
func withoutQuery(bucket string) string {
	name, _, _ := strings.Cut(bucket, "?")
	return name
}
