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

	"github.com/entrypointer/entrypointer/internal/secretfiles"
)

func TestAFileThatDoesNotRespondIsReportedUntilItDoes(t *testing.T) {
	answers := make(chan struct{})
	said := make(chan string)
	s := newSecrets(secretSources{paths: []string{"/mnt/first", "/mnt/second"}}, nil, nil, func(why string) { said <- why })
	s.files.Read = func(name string) (string, error) {
		if name == "/mnt/second" {
			<-answers
		}
		return "secret of " + name, nil
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
		"many of files": {make([]int, secretfiles.MaxFiles-1), make([]int, secretfiles.MaxFiles), "has more than 1000 files and directories, whose content is masked: nothing is sent"},
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

// seenAfter waits for a result while reasons may still be told.
func seenAfter[T any](t *testing.T, said <-chan string, after <-chan T) T {
	t.Helper()
	for {
		select {
		case <-said: // it was about to be
		case result := <-after:
			return result
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
	grown.Store(secretfiles.MaxSecret + 1)
	f.Read = func(string) (string, error) { return strings.Repeat("s", int(grown.Load())), nil }
	after := make(chan inspection)
	go func() { after <- f.waitUntilMaskable("") }()
	require.Contains(t, <-said, "has more than 1 MiB")
	grown.Store(secretfiles.MaxSecret)
	require.Len(t, seenAfter(t, said, after).values[0], secretfiles.MaxSecret)
}

// Only a file that the command can't read either has nothing to mask.
func TestNothingIsSentUntilAFileThatIsThereCanBeRead(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("open sesame"), 0o600))
	for name, fails := range map[string]func(f *files, err error){
		"its state":   func(f *files, err error) { f.Stat = func(string) (os.FileInfo, error) { return nil, err } },
		"its content": func(f *files, err error) { f.Read = func(string) (string, error) { return "", err } },
	} {
		for _, number := range []syscall.Errno{syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ESTALE, syscall.EPERM} {
			t.Run(fmt.Sprintf("%s: %v", name, number), func(t *testing.T) {
				t.Parallel()
				said := make(chan string)
				s := newSecrets(secretSources{paths: []string{file}}, nil, nil, func(reason string) { said <- reason })
				var works atomic.Bool
				broken := &files{Files: &secretfiles.Files{Stat: s.files.Stat, Read: s.files.Read}}
				fails(broken, &os.PathError{Op: "open", Path: file, Err: number})
				s.files.Stat = func(name string) (os.FileInfo, error) {
					if works.Load() {
						return os.Stat(name)
					}
					return broken.Stat(name)
				}
				s.files.Read = func(name string) (string, error) {
					if works.Load() {
						return secretfiles.ReadSecret(name)
					}
					return broken.Read(name)
				}
				loaded := make(chan bool)
				go func() { loaded <- s.load() }()
				require.Equal(t, fmt.Sprintf("reading %q, whose content is masked: %v: nothing is sent until it can be read", file, number), <-said)
				works.Store(true)
				require.True(t, seenAfter(t, said, loaded))
				require.Equal(t, "***********", masked(s, "open sesame"))
			})
		}
		for _, number := range []syscall.Errno{syscall.ENOENT, syscall.ENOTDIR, syscall.EACCES, syscall.ELOOP} {
			s := newSecrets(secretSources{paths: []string{file}}, nil, nil, func(reason string) { t.Error(reason) })
			fails(s.files, &os.PathError{Op: "open", Path: file, Err: number})
			require.True(t, s.load(), "%s: %v", name, number)
		}
	}
}
