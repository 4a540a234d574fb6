// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package installer

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The scripts of cmd/entrypoint test the copier as a process. These tests cover what
// the scripts can't.

// TestConcurrentInstallsAreAtomic reads the target while several goroutines install it
// repeatedly.
func TestConcurrentInstallsAreAtomic(t *testing.T) {
	dir := t.TempDir()
	source, target := filepath.Join(t.TempDir(), "source"), filepath.Join(dir, "entrypoint")
	want := bytes.Repeat([]byte("whole"), 100_000)
	require.NoError(t, os.WriteFile(source, want, 0o600))
	require.NoError(t, Install(source, target))

	var writers sync.WaitGroup
	for range 3 {
		writers.Go(func() {
			for range 20 {
				// A goroutine may remove another one's temporary file, so that the
				// other one fails. The installed file is complete all the same.
				_ = Install(source, target)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		writers.Wait()
		close(done)
	}()
	for {
		got, err := os.ReadFile(target)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
		info, err := os.Stat(target)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(Mode), info.Mode().Perm())
		select {
		case <-done:
			require.NoError(t, Install(source, target))
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1, "temporary files are left")
			return
		default:
		}
	}
}

func TestInstallKeepsOtherFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".entrypoint-", "entrypoint-1.tmp", ".entrypoint-1"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.NoError(t, Install("/proc/self/exe", filepath.Join(dir, "entrypoint")))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 4)
}

func TestAFailedInstallLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "entrypoint"), 0o700))
	require.Error(t, Install("/proc/self/exe", filepath.Join(dir, "entrypoint")))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)

	require.ErrorIs(t, Install(filepath.Join(dir, "none"), filepath.Join(dir, "copy")), os.ErrNotExist)
}

func TestInstallDurablyCreatesTheDirectory(t *testing.T) {
	claim := t.TempDir()
	target := filepath.Join(claim, "plain", "entrypoint")
	for range 2 { // again, after a crash
		require.Zero(t, Main([]string{"copier", "-durable", target}))
		info, err := os.Stat(target)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(Mode), info.Mode().Perm())
	}
	require.Equal(t, exitFailure, Main([]string{"copier", target + "/none/entrypoint"}), "without the flag, no directory is made")
	require.Equal(t, exitFailure, Main([]string{"copier", "-durable"}))
	require.Equal(t, exitFailure, Main([]string{"copier", "-durable", filepath.Join(claim, "none", "plain", "entrypoint")}))
	require.Equal(t, exitFailure, Main([]string{"copier", "-durable", "relative"}))
}
