// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package secretfiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/ring"
)

// witness returns a Witness of some paths, and what it remembers.
func witness(t *testing.T, paths ...string) (w *Witness, remembered func() []string) {
	t.Helper()
	fd, err := ring.CreateSnapshot()
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	snapshot, err := ring.OpenSnapshot(fd)
	require.NoError(t, err)
	return NewWitness(paths, snapshot), func() []string { return DecodeSnapshot(snapshot.Load()) }
}

func write(t *testing.T, file, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
}

func TestAWitnessRemembersWhatFilesContainedHoweverTheyChange(t *testing.T) {
	directory := t.TempDir()
	file, volume := filepath.Join(directory, "token"), filepath.Join(directory, "volume")
	w, remembered := witness(t, file, volume)
	require.NoError(t, w.Inspect())
	require.Empty(t, remembered(), "there are no files yet")
	for _, step := range []func(){
		func() { write(t, file, "written") },
		func() { write(t, file, "written anew") },
		func() { write(t, file+".new", "renamed"); require.NoError(t, os.Rename(file+".new", file)) },
		func() {
			for _, version := range []string{"..1", "..2"} {
				require.NoError(t, os.MkdirAll(filepath.Join(volume, version), 0o755))
				write(t, filepath.Join(volume, version, "key"), "in "+version)
			}
			require.NoError(t, os.Symlink("..data/key", filepath.Join(volume, "key")))
			require.NoError(t, os.Symlink("..1", filepath.Join(volume, "..data")))
		},
		func() {
			require.NoError(t, os.Symlink("..2", filepath.Join(volume, "..new")))
			require.NoError(t, os.Rename(filepath.Join(volume, "..new"), filepath.Join(volume, "..data")))
		},
		func() { require.NoError(t, os.RemoveAll(file)); require.NoError(t, os.RemoveAll(volume)) },
		func() { write(t, file, "renamed") },
	} {
		step()
		require.NoError(t, w.Inspect())
	}
	require.Equal(t, []string{"written", "written anew", "renamed", "in ..1", "in ..2"}, remembered())
}

// The kernel's clock may not have ticked since the file was read.
func TestAFileThatHasJustChangedIsReadAgainAlthoughNothingShowsAChange(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "one")
	w, remembered := witness(t, file)
	info, err := os.Stat(file)
	require.NoError(t, err)
	stat := *info.Sys().(*syscall.Stat_t)
	w.files.Stat = func(string) (os.FileInfo, error) { return unchanging{info, &stat}, nil }
	changeTime := func(t time.Time) { stat.Ctim = syscall.NsecToTimespec(t.UnixNano()) }

	changeTime(time.Now())
	require.NoError(t, w.Inspect())
	write(t, file, "two")
	changeTime(time.Now())
	require.NoError(t, w.Inspect())
	require.Equal(t, []string{"one", "two"}, remembered())

	changeTime(time.Now().Add(-time.Hour))
	require.NoError(t, w.Inspect())
	w.files.Read = func(string) (string, error) { return "", errors.New("it is read although it hasn't changed") }
	require.NoError(t, w.Inspect())
}

// unchanging is the state of a file, whatever happens to it.
type unchanging struct {
	os.FileInfo
	stat *syscall.Stat_t
}

func (u unchanging) Sys() any { return u.stat }

func TestOfManyContentsAWitnessForgetsTheOldestThatNoFileHas(t *testing.T) {
	directory := t.TempDir()
	constant, changing := filepath.Join(directory, "constant"), filepath.Join(directory, "changing")
	w, remembered := witness(t, constant, changing)
	write(t, constant, "open sesame")
	var want []string
	for i := range maxFormer + 10 {
		value := fmt.Sprintf("token %d", i)
		write(t, changing, value)
		require.NoError(t, w.Inspect())
		want = append(want, value)
	}
	require.Equal(t, append([]string{"open sesame"}, want[len(want)-maxFormer+1:]...), remembered())

	var large []string
	for _, letter := range []string{"a", "b", "c"} {
		large = append(large, strings.Repeat(letter, maxRemembered/2-100))
		write(t, changing, large[len(large)-1])
		require.NoError(t, w.Inspect())
	}
	require.Equal(t, append([]string{"open sesame"}, large[1:]...), remembered())
}

func TestWhatCanBeReadIsRememberedWhileSomethingElseCanNot(t *testing.T) {
	directory := t.TempDir()
	first, second := filepath.Join(directory, "first"), filepath.Join(directory, "second")
	write(t, first, "one")
	write(t, second, "two")
	w, remembered := witness(t, first, second)
	read := w.files.Read
	w.files.Read = func(name string) (string, error) {
		if name == second {
			return "", syscall.EIO
		}
		return read(name)
	}
	require.ErrorContains(t, w.Inspect(), "second\", whose content is masked: input/output error")
	require.Equal(t, []string{"one"}, remembered())
	w.files.Read = read
	require.NoError(t, w.Inspect())
	require.Equal(t, []string{"one", "two"}, remembered())
}

func TestAFileWhoseContentCouldNotBeSavedIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "open sesame")
	time.Sleep(2 * settled)
	w, remembered := witness(t, file)
	writable := w.snapshot
	fd, err := ring.CreateSnapshot()
	require.NoError(t, err)
	defer func() { _ = unix.Close(fd) }()
	constant, err := unix.Open(fmt.Sprint("/proc/self/fd/", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(constant) }()
	w.snapshot, err = ring.OpenSnapshot(constant)
	require.NoError(t, err)
	for range 2 {
		require.ErrorContains(t, w.Inspect(), "saving a snapshot")
	}
	w.snapshot = writable
	require.NoError(t, w.Inspect())
	require.Equal(t, []string{"open sesame"}, remembered())
}
