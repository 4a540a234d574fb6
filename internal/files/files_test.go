// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package files

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestReadAllReadsUpToTheLimit(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, initialSize, initialSize + 1, initialSize + 2, 5 * initialSize} {
		content := bytes.Repeat([]byte("x"), size)
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		for limit, want := range map[int]error{max(size-1, 0): ErrTooLarge, size: nil, size + 1: nil, math.MaxInt: nil} {
			if limit == size {
				want = nil // an empty file fits any limit
			}
			f, err := os.Open(path)
			require.NoError(t, err)
			data, err := ReadAll(int(f.Fd()), limit)
			require.NoError(t, f.Close())
			if want != nil {
				require.ErrorIs(t, err, want, "%d bytes, limit %d", size, limit)
				continue
			}
			require.NoError(t, err, "%d bytes, limit %d", size, limit)
			require.Equal(t, string(content), string(data))
		}
	}
}

func TestWriteAllRepeatsInterruptedAndPartialWrites(t *testing.T) {
	t.Parallel()
	var written []byte
	calls := 0
	err := WriteAll(7, []byte("content"), func(fd int, data []byte) (int, error) {
		require.Equal(t, 7, fd)
		calls++
		if calls == 2 {
			return -1, unix.EINTR
		}
		written = append(written, data[:min(len(data), 3)]...)
		return min(len(data), 3), nil
	})
	require.NoError(t, err)
	require.Equal(t, "content", string(written))
	require.Equal(t, 4, calls)

	err = WriteAll(7, []byte("content"), func(int, []byte) (int, error) { return -1, unix.ENOSPC })
	require.ErrorIs(t, err, unix.ENOSPC)
}

func TestAWriteOfNothingIsAnErrorAndNoLoop(t *testing.T) {
	t.Parallel()
	err := WriteAll(3, []byte("x"), func(int, []byte) (int, error) { return 0, nil })
	require.ErrorIs(t, err, unix.EIO)
}
