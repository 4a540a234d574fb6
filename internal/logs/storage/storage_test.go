// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

func files(t *testing.T) *Files {
	t.Helper()
	f, err := OpenFiles(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func names(t *testing.T, bucket Bucket, directory string) (list []string) {
	t.Helper()
	objects, err := bucket.List(t.Context(), directory)
	require.NoError(t, err)
	for _, o := range objects {
		list = append(list, o.Name)
	}
	return list
}

func TestARefusedObjectLeavesNoTemporaryFile(t *testing.T) {
	f := files(t)
	require.NoError(t, f.Create(t.Context(), "a", []byte("first")))
	require.ErrorIs(t, f.Create(t.Context(), "a", []byte("second")), ErrExists)
	require.Empty(t, names(t, f, temporaryDirectory))
}

func TestStaleTemporaryFilesOfACrashAreRemoved(t *testing.T) {
	directory := t.TempDir()
	f, err := OpenFiles(directory)
	require.NoError(t, err)
	for _, name := range []string{"old", "young"} {
		require.NoError(t, f.write(temporaryDirectory+"/"+name, []byte("half")))
	}
	require.NoError(t, f.Close())
	long := time.Now().Add(-2 * staleAfter)
	require.NoError(t, os.Chtimes(filepath.Join(directory, temporaryDirectory, "old"), long, long))
	f, err = OpenFiles(directory)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, []string{"young"}, names(t, f, temporaryDirectory), "another replica may be writing it")
}

func TestAFullDiskLeavesNothing(t *testing.T) {
	directory := t.TempDir()
	if err := syscall.Mount("tmpfs", directory, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mounting a small disk: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(directory, 0)) })
	f, err := OpenFiles(directory)
	require.NoError(t, err)
	defer f.Close()
	err = f.Create(t.Context(), "a/big", make([]byte, 100_000))
	require.ErrorIs(t, err, ErrFull)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Empty(t, names(t, f, "a"))
	require.Empty(t, names(t, f, temporaryDirectory))
	require.NoError(t, f.Create(t.Context(), "a/big", make([]byte, 10_000)))
	free, inodes, err := f.Space()
	require.NoError(t, err)
	require.LessOrEqual(t, free, 65536.0-10_000)
	require.Positive(t, free)
	require.Positive(t, inodes)
}

func TestOpeningAMissingDirectoryIsAnError(t *testing.T) {
	_, err := OpenFiles(filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "opening the directory of the logs")
}

func TestADirectoryGoesWithItsLastObjectAndComesBack(t *testing.T) {
	f := files(t)
	for range 3 {
		require.NoError(t, f.Create(t.Context(), "a/b/c", nil))
		require.NoError(t, f.Create(t.Context(), "a/d", nil))
		require.NoError(t, f.Each(t.Context(), "a/b", func(Object) bool {
			require.NoError(t, f.Delete(t.Context(), "a/b/c"))
			return true
		}))
		_, err := f.root.Stat("a/b")
		require.ErrorIs(t, err, os.ErrNotExist)
		require.Equal(t, []string{"d"}, names(t, f, "a"))
		require.NoError(t, f.Delete(t.Context(), "a/d"))
		_, err = f.root.Stat("a")
		require.ErrorIs(t, err, os.ErrNotExist)
	}
}

func TestObjectsAreWrittenWhileTheirDirectoryGoes(t *testing.T) {
	f := files(t)
	var group errgroup.Group
	for i := range 4 {
		group.Go(func() error {
			for range 100 {
				key := fmt.Sprintf("a/b/%d", i)
				if err := errors.Join(f.Create(context.Background(), key, nil), f.Delete(context.Background(), key)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
}
