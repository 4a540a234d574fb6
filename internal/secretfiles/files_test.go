// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package secretfiles

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// fill writes files of some sizes, all with different content.
func fill(t *testing.T, directory string, sizes ...int) {
	t.Helper()
	for i, size := range sizes {
		content := []byte(strings.Repeat(fmt.Sprintf("line %d of a secret\n", i), size/16+1))[:size]
		require.NoError(t, os.WriteFile(filepath.Join(directory, fmt.Sprint(i)), content, 0o600))
	}
}

func TestAPipeInThePlaceOfAFileBlocksNothing(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	value, err := readRegular(pipe)
	require.NoError(t, err)
	require.Empty(t, value)
}

func TestADirectoryIsListedOnceHoweverManyLinksLeadThere(t *testing.T) {
	directory := t.TempDir()
	fill(t, directory, make([]int, MaxFiles/2)...)
	for i := range 4 {
		require.NoError(t, os.Symlink(".", filepath.Join(directory, fmt.Sprint("itself", i))))
	}
	names, err := FilesIn(directory)
	require.NoError(t, err)
	require.Len(t, names, MaxFiles/2)
}

func TestAProcessWithoutFileDescriptorsTakesNoFileForAbsent(t *testing.T) {
	directory := t.TempDir()
	fill(t, directory, 10)
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	none := limit
	none.Cur = 0
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
	names, listing := FilesIn(directory)
	_, reading := ReadSecret(filepath.Join(directory, "0"))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	require.Empty(t, names)
	require.ErrorIs(t, listing, syscall.EMFILE)
	require.ErrorIs(t, reading, syscall.EMFILE)
}

func TestTheListingOfAHugeDirectoryIsBounded(t *testing.T) {
	directory := t.TempDir()
	for i := range MaxFiles + 50 {
		require.NoError(t, os.WriteFile(filepath.Join(directory, fmt.Sprint(i)), nil, 0o600))
	}
	names, err := FilesIn(directory)
	require.ErrorContains(t, err, "has more than 1000 files and directories")
	require.LessOrEqual(t, len(names), MaxFiles)
}
