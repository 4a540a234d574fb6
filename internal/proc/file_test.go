// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package proc

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/files"
)

func TestReadFileReadsWhatFitsIntoItsLimit(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	for _, size := range []int{0, 1, 4 << 10, 16 << 10, 16<<10 + 1, 1 << 20} {
		require.NoError(t, os.WriteFile(name, make([]byte, size), 0o600))
		got, err := ReadFile(name, 1<<20)
		require.NoError(t, err)
		require.Len(t, got, size)
	}
	_, err := ReadFile(name, 1<<20-1)
	require.ErrorIs(t, err, files.ErrTooLarge)
	_, err = ReadFile(name+"x", 1)
	require.ErrorIs(t, err, syscall.ENOENT)
}
