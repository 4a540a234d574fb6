// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
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

func TestAnObjectIsWrittenOnce(t *testing.T) {
	f, before := files(t), time.Now().Add(-time.Second)
	require.NoError(t, f.Create(t.Context(), "a/b/c", []byte("first")))
	require.ErrorIs(t, f.Create(t.Context(), "a/b/c", []byte("second")), ErrExists)
	content, err := f.Read(t.Context(), "a/b/c")
	require.NoError(t, err)
	require.Equal(t, "first", string(content))
	objects, err := f.List(t.Context(), "a/b")
	require.NoError(t, err)
	require.Len(t, objects, 1)
	require.Equal(t, int64(len("first")), objects[0].Size)
	require.WithinRange(t, objects[0].Written, before, time.Now().Add(time.Second))
}

func TestAListingHasTheObjectsOfOneDirectory(t *testing.T) {
	f := files(t)
	for _, key := range []string{"a/2", "a/10", "a/b/1", "ab", "a/1"} {
		require.NoError(t, f.Create(t.Context(), key, nil))
	}
	require.Equal(t, []string{"1", "10", "2"}, names(t, f, "a"))
	require.Equal(t, []string{"1"}, names(t, f, "a/b"))
	require.Empty(t, names(t, f, "a/c"))
}

func TestTheDirectoriesBelowOneAreFound(t *testing.T) {
	f := files(t)
	for _, key := range []string{"a/1", "a/b/1", "a/b/2", "a/c/d/1", "e/1"} {
		require.NoError(t, f.Create(t.Context(), key, nil))
	}
	for directory, want := range map[string][]string{"a": {"b", "c"}, "a/c": {"d"}, "e": nil, "no": nil} {
		var found []string
		require.NoError(t, f.Directories(t.Context(), directory, func(name string) bool {
			found = append(found, name)
			return true
		}))
		require.ElementsMatch(t, want, found, directory)
	}
}

func TestWhatIsNotThereCanBeDeleted(t *testing.T) {
	f := files(t)
	_, err := f.Read(t.Context(), "a/1")
	require.ErrorIs(t, err, ErrNotFound)
	require.NoError(t, f.Delete(t.Context(), "a/1"))
	require.NoError(t, f.Create(t.Context(), "a/1", nil))
	require.NoError(t, f.Delete(t.Context(), "a/1"))
	require.Empty(t, names(t, f, "a"))
	require.NoError(t, f.Create(t.Context(), "a/1", nil))
}

// As replicas do that share a volume.
func TestOfManyWritersOneWins(t *testing.T) {
	directory := t.TempDir()
	var won atomic.Int32
	var group errgroup.Group
	for i := range 8 {
		f, err := OpenFiles(directory)
		require.NoError(t, err)
		defer f.Close()
		group.Go(func() error {
			for key := range 50 {
				switch err := f.Create(context.Background(), fmt.Sprintf("deep/%d/er/%d", key%7, key), bytes.Repeat([]byte{byte(i)}, 5000)); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, ErrExists):
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, int32(50), won.Load())
	f, err := OpenFiles(directory)
	require.NoError(t, err)
	defer f.Close()
	for key := range 50 {
		content, err := f.Read(t.Context(), fmt.Sprintf("deep/%d/er/%d", key%7, key))
		require.NoError(t, err)
		require.Equal(t, bytes.Repeat(content[:1], 5000), content)
	}
	require.Empty(t, names(t, f, unfinished))
}

func TestACrashLeavesNoObjectAndNothingForGood(t *testing.T) {
	directory := t.TempDir()
	f, err := OpenFiles(directory)
	require.NoError(t, err)
	for _, name := range []string{"old", "young"} {
		require.NoError(t, f.write(unfinished+"/"+name, []byte("half")))
	}
	require.NoError(t, f.Close())
	long := time.Now().Add(-2 * staleAfter)
	require.NoError(t, os.Chtimes(filepath.Join(directory, unfinished, "old"), long, long))
	f, err = OpenFiles(directory)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, []string{"young"}, names(t, f, unfinished), "another replica may be writing it")
}

func TestAKeyLeadsNowhereElse(t *testing.T) {
	f := files(t)
	for _, key := range []string{"../x", "a/../../x", "/x", "", "."} {
		require.Error(t, f.Create(t.Context(), key, nil), key)
	}
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
	require.ErrorIs(t, f.Create(t.Context(), "a/big", make([]byte, 100_000)), syscall.ENOSPC)
	require.Empty(t, names(t, f, "a"))
	require.Empty(t, names(t, f, unfinished))
	require.NoError(t, f.Create(t.Context(), "a/big", make([]byte, 10_000)))
}

func TestADirectoryThatIsNotThereIsAnError(t *testing.T) {
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
