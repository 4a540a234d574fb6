// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOnlyOneProcessLocksTheDirectory(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	first, err := LockDirectory(t.Context(), directory, 0)
	require.NoError(t, err)
	_, err = LockDirectory(t.Context(), directory, 3*lockPause)
	require.ErrorContains(t, err, "another log service has held the lock for 300ms")
	require.ErrorContains(t, err, "set the replicas of its Deployment to 1")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = LockDirectory(ctx, directory, time.Minute)
	require.ErrorIs(t, err, context.Canceled)

	// The predecessor stops while its successor waits.
	go func() {
		time.Sleep(lockPause)
		_ = first.Release()
	}()
	second, err := LockDirectory(t.Context(), directory, time.Minute)
	require.NoError(t, err)
	require.NoError(t, second.Release())
}

func TestLockingAMissingDirectoryIsAnError(t *testing.T) {
	t.Parallel()
	_, err := LockDirectory(t.Context(), filepath.Join(t.TempDir(), "none"), 0)
	require.ErrorContains(t, err, "it has to exist, and to be writable for user")
}
