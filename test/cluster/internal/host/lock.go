// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/test/cluster/internal/progress"
)

// Lock lets one process at a time start or end the cluster. The kernel frees
// the lock when the process ends, however it ends.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("locking %q: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking %q: %w", path, err)
	}
	try := func() error { return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
	for said := false; try() != nil; said = true {
		if !said {
			holder, _ := os.ReadFile(path)
			progress.Printf("waiting for process %s, which is starting or ending the cluster", strings.TrimSpace(string(holder)))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("locking %q: %w", path, context.Cause(ctx))
		case <-time.After(200 * time.Millisecond):
		}
	}
	_ = file.Truncate(0)
	_, _ = file.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	return func() { _ = file.Close() }, nil
}
