// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

// copies are what the init container's own program took, each time.
type copies struct {
	size  int64 // of the copy, in bytes
	times []time.Duration
}

// timeCopies runs the copier without a container around it.
func timeCopies(ctx context.Context, rounds int) (c copies, err error) {
	dir, err := os.MkdirTemp("", "entrypointer-bench-")
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	copier := filepath.Join(dir, "copier")
	if _, err := framework.Run(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", copier, "github.com/entrypointer/entrypointer/cmd/copier"); err != nil {
		return c, err
	}
	for i := range rounds {
		target := filepath.Join(dir, fmt.Sprint("pod-", i))
		if err := os.Mkdir(target, 0o755); err != nil {
			return c, err
		}
		started := time.Now()
		if _, err := framework.Run(ctx, copier, filepath.Join(target, "entrypoint")); err != nil {
			return c, err
		}
		c.times = append(c.times, time.Since(started))
	}
	info, err := os.Stat(copier)
	if err != nil {
		return c, err
	}
	c.size = info.Size()
	return c, nil
}
