// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPipeInThePlaceOfAFileBlocksNothing(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.Empty(t, readRegular(pipe))
}

func TestAFileThatDoesNotRespondIsReportedUntilItDoes(t *testing.T) {
	answers := make(chan struct{})
	said := make(chan string)
	s := newSecrets(secretSources{paths: []string{"/mnt/first", "/mnt/second"}}, nil, nil, func(why string) { said <- why })
	s.files.read = func(name string) string {
		if name == "/mnt/second" {
			<-answers
		}
		return "secret of " + name
	}
	read := make(chan bool)
	go func() { read <- s.load() }()
	for range 2 {
		require.Equal(t, `looking at "/mnt/second", whose content is masked, takes long: nothing is sent until its volume answers`, <-said)
	}
	close(answers)
	for done := false; !done; {
		select {
		case <-said: // it was about to be
		case more := <-read:
			require.True(t, more)
			done = true
		}
	}
	require.Equal(t, "******************** *********************", masked(s, "secret of /mnt/first secret of /mnt/second"))
}

// fill writes files of some sizes, all with different content.
func fill(t *testing.T, directory string, sizes ...int) {
	t.Helper()
	for i, size := range sizes {
		content := []byte(strings.Repeat(fmt.Sprintf("line %d of a secret\n", i), size/16+1))[:size]
		require.NoError(t, os.WriteFile(filepath.Join(directory, fmt.Sprint(i)), content, 0o600))
	}
}

// Files that can't be masked completely keep all output from being sent.
func TestNothingIsSentUntilTheFilesAreSmallEnough(t *testing.T) {
	const secret = 1 << 20
	for name, test := range map[string]struct {
		atTheBound, beyond []int
		says               string
	}{
		"a file":        {[]int{secret}, []int{secret + 1}, "/0\", whose content is masked, has more than 1 MiB: nothing is sent"},
		"all together":  {[]int{secret, secret, secret, secret}, []int{secret, secret, secret, secret, 1}, "files whose content is masked have more than 4 MiB together: nothing is sent"},
		"many of files": {make([]int, maxFiles-1), make([]int, maxFiles), "has more than 1000 files and directories, whose content is masked: nothing is sent"},
	} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			fill(t, directory, test.atTheBound...)
			f := newFiles([]string{directory}, func(why string) { t.Error(why) })
			l := f.waitUntilMaskable("")
			require.Equal(t, len(test.atTheBound), l.count)
			require.Empty(t, f.waitUntilMaskable(l.stamp).values, "nothing is new")

			fill(t, directory, test.beyond...)
			said := make(chan string)
			f.onFailure = func(why string) { said <- why }
			after := make(chan inspection)
			go func() { after <- f.waitUntilMaskable(l.stamp) }()
			for range 2 {
				require.Contains(t, <-said, test.says)
			}
			last := filepath.Join(directory, fmt.Sprint(len(test.beyond)-1))
			require.NoError(t, os.Remove(last))
			require.NotEmpty(t, seenAfter(t, said, after).stamp)
		})
	}
}

func seenAfter(t *testing.T, said <-chan string, after <-chan inspection) inspection {
	t.Helper()
	for {
		select {
		case <-said: // it was about to be
		case l := <-after:
			return l
		}
	}
}

// Its size is known only after it was read.
func TestAFileThatGrowsWhileItIsReadIsTooLargeAsWell(t *testing.T) {
	directory := t.TempDir()
	fill(t, directory, 10)
	said := make(chan string)
	f := newFiles([]string{directory}, func(why string) { said <- why })
	var grown atomic.Int64
	grown.Store(maxSecret + 1)
	f.read = func(string) string { return strings.Repeat("s", int(grown.Load())) }
	after := make(chan inspection)
	go func() { after <- f.waitUntilMaskable("") }()
	require.Contains(t, <-said, "has more than 1 MiB")
	grown.Store(maxSecret)
	require.Len(t, seenAfter(t, said, after).values[0], maxSecret)
}

func TestADirectoryIsListedOnceHoweverManyLinksLeadThere(t *testing.T) {
	directory := t.TempDir()
	fill(t, directory, make([]int, maxFiles/2)...)
	for i := range 4 {
		require.NoError(t, os.Symlink(".", filepath.Join(directory, fmt.Sprint("itself", i))))
	}
	names, all := filesIn(directory)
	require.True(t, all)
	require.Len(t, names, maxFiles/2)
}
