// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package await

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// deadline is for what takes milliseconds on an idle machine.
const deadline = 20 * time.Second

// wait waits for files, once.
func wait(f Files, limit time.Duration) (Result, error) {
	w := NewWaiter(f)
	defer w.Close()
	return w.Wait(limit)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// after waits for files, and has something happen once the waiting has begun.
func after(t *testing.T, f Files, limit time.Duration, happen func()) (Result, error) {
	t.Helper()
	type answer struct {
		Result
		error
	}
	answers := make(chan answer, 1)
	go func() {
		result, err := wait(f, limit)
		answers <- answer{result, err}
	}()
	time.Sleep(30 * time.Millisecond)
	require.Empty(t, answers, "it didn't wait")
	happen()
	select {
	case a := <-answers:
		return a.Result, a.error
	case <-time.After(deadline):
		require.Fail(t, "it waits still")
	}
	return 0, nil
}

func TestWhatIsThereIsNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/full", "x")
	write(t, dir+"/empty", "")
	for name, f := range map[string]Files{
		"nothing to wait for":   {},
		"a file":                {All: []Condition{{Path: dir + "/empty"}}},
		"a file or its failure": {All: []Condition{{Path: dir + "/empty", OrErr: true}}},
		"a file with content":   {All: []Condition{{Path: dir + "/full", Content: true}}},
		"a directory":           {All: []Condition{{Path: dir}}},
		"all of several":        {All: []Condition{{Path: dir + "/empty"}, {Path: dir + "/full", Content: true}}},
		"what is met wins":      {All: []Condition{{Path: dir + "/full"}}, Abort: []Condition{{Path: dir + "/empty"}}},
	} {
		result, err := wait(f, 0)
		require.NoError(t, err, name)
		require.Equal(t, Met, result, name)
	}
}

func TestWaitsUntil(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(dir string)
		files   func(dir string) Files
		limit   time.Duration
		happen  func(dir string)
		want    Result
	}{
		"a file is created": {
			files:  func(dir string) Files { return Files{All: []Condition{{Path: dir + "/out"}}} },
			happen: func(dir string) { write(t, dir+"/out", "") },
		},
		"a file is moved there": {
			prepare: func(dir string) { write(t, dir+"/new", "") },
			files:   func(dir string) Files { return Files{All: []Condition{{Path: dir + "/out"}}} },
			happen:  func(dir string) { require.NoError(t, os.Rename(dir+"/new", dir+"/out")) },
		},
		"a file has content": {
			prepare: func(dir string) { write(t, dir+"/out", "") },
			files:   func(dir string) Files { return Files{All: []Condition{{Path: dir + "/out", Content: true}}} },
			happen:  func(dir string) { write(t, dir+"/out", "x") },
		},
		"the downward API has swapped its link": {
			prepare: func(dir string) {
				require.NoError(t, os.Mkdir(dir+"/..1", 0o700))
				write(t, dir+"/..1/ready", "")
				require.NoError(t, os.Symlink("..1", dir+"/..data"))
				require.NoError(t, os.Symlink("..data/ready", dir+"/ready"))
			},
			files: func(dir string) Files { return Files{All: []Condition{{Path: dir + "/ready", Content: true}}} },
			happen: func(dir string) {
				require.NoError(t, os.Mkdir(dir+"/..2", 0o700))
				write(t, dir+"/..2/ready", "READY")
				require.NoError(t, os.Symlink("..2", dir+"/..data_tmp"))
				require.NoError(t, os.Rename(dir+"/..data_tmp", dir+"/..data"))
			},
		},
		"the last of several is there": {
			prepare: func(dir string) { require.NoError(t, os.Mkdir(dir+"/other", 0o700)) },
			files: func(dir string) Files {
				return Files{All: []Condition{{Path: dir + "/a"}, {Path: dir + "/other/b"}}}
			},
			happen: func(dir string) { write(t, dir+"/other/b", ""); write(t, dir+"/a", "") },
		},
		"its directory is there, too": {
			files: func(dir string) Files { return Files{All: []Condition{{Path: dir + "/later/out"}}} },
			happen: func(dir string) {
				require.NoError(t, os.Mkdir(dir+"/later", 0o700))
				write(t, dir+"/later/out", "")
			},
		},
		"one of two is there": {
			files: func(dir string) Files {
				return Files{All: []Condition{{Path: dir + "/out", OrErr: true}}, Abort: []Condition{{Path: dir + "/cancel"}}}
			},
			happen: func(dir string) { write(t, dir+"/out.err", "") },
		},
		"it is in vain": {
			prepare: func(dir string) { write(t, dir+"/cancel", "") },
			files: func(dir string) Files {
				return Files{All: []Condition{{Path: dir + "/out"}}, Abort: []Condition{{Path: dir + "/cancel", Content: true}, {Path: dir + "/out.err"}}}
			},
			happen: func(dir string) { write(t, dir+"/out.err", "") },
			want:   Aborted,
		},
		"the time is up": {
			files: func(dir string) Files {
				return Files{All: []Condition{{Path: dir + "/out"}}}
			},
			limit:  60 * time.Millisecond,
			happen: func(string) {},
			want:   TimedOut,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if test.prepare != nil {
				test.prepare(dir)
			}
			result, err := after(t, test.files(dir), test.limit, func() { test.happen(dir) })
			require.NoError(t, err)
			require.Equal(t, test.want, result)
		})
	}
}

// TestWaitsWhereNothingIsWatched has no descriptor left for inotify, as at the
// limit of watches.
func TestWaitsWhereNothingIsWatched(t *testing.T) {
	w := newWatch([]string{t.TempDir(), t.TempDir() + "/missing"})
	require.False(t, w.complete())
	w.close()

	w = watch{fd: -1}
	require.False(t, w.complete())
	start := time.Now()
	w.sleep(30 * time.Millisecond)
	require.GreaterOrEqual(t, time.Since(start), 30*time.Millisecond)
	w.close()
}

func TestAWaiterMayWaitAgainOrBeInterrupted(t *testing.T) {
	dir := t.TempDir()
	w := NewWaiter(Files{All: []Condition{{Path: dir + "/out"}}})
	defer w.Close()
	for range 2 {
		result, err := w.Wait(time.Nanosecond)
		require.NoError(t, err)
		require.Equal(t, TimedOut, result)
	}
	ended := false
	w.Interrupt = func() bool { return ended }
	result, _ := w.Wait(time.Nanosecond)
	require.Equal(t, TimedOut, result)
	ended = true
	result, _ = w.Wait(0)
	require.Equal(t, Interrupted, result)
	write(t, dir+"/out", "")
	result, _ = w.Wait(0)
	require.Equal(t, Met, result, "what is there counts more")
}

func TestAPathThatCannotBeIsNotWaitedFor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	result, err := wait(Files{All: []Condition{{Path: file + "/out"}}}, 0)
	require.Equal(t, Unknown, result)
	require.ErrorIs(t, err, unix.ENOTDIR)
	require.ErrorContains(t, err, "waiting for "+file+"/out: ")
}

// TestABusyDirectoryIsDrained leaves no event unread, or the next sleep would
// be none.
func TestABusyDirectoryIsDrained(t *testing.T) {
	dir := t.TempDir()
	w := newWatch([]string{dir})
	defer w.close()
	for range 1000 {
		write(t, dir+"/some-file-with-a-name-of-some-length", "x")
	}
	w.sleep(deadline)
	start := time.Now()
	w.sleep(30 * time.Millisecond)
	require.GreaterOrEqual(t, time.Since(start), 30*time.Millisecond)
}

// TestOthersMayStillWatch has more processes of a user wait than the kernel
// gives that user instances of inotify.
func TestOthersMayStillWatch(t *testing.T) {
	const limit, waiting = 60, 80
	if os.Getenv("AWAIT_WATCHERS") == "" {
		// In a user namespace of its own, which has a limit of its own.
		cmd := exec.Command(os.Args[0], "-test.run=^TestOthersMayStillWatch$", "-test.v")
		cmd.Env = append(os.Environ(), "AWAIT_WATCHERS=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		said, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.EPERM) {
			t.Skip("no user namespaces here")
		}
		require.NoError(t, err, "%s", said)
		return
	}
	require.NoError(t, os.WriteFile("/proc/sys/user/max_inotify_instances", fmt.Append(nil, limit), 0))
	var watches []watch
	watching := 0
	for range waiting {
		w := newWatch([]string{t.TempDir()})
		watches = append(watches, w)
		if w.complete() {
			watching++
		}
	}
	require.Equal(t, limit-spare, watching)
	require.True(t, others(spare))
	for _, w := range watches {
		w.close()
	}
}
