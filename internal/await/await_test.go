// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package await

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// deadline is for an operation that takes milliseconds on an idle machine.
const deadline = 20 * time.Second

// wait waits for files, like a program that has nothing else to do.
func wait(w *Waiter) State {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	defer signal.Stop(signals)
	for {
		if state := w.Look(); state != Waiting {
			return state
		}
		select {
		case <-signals:
		case <-time.After(w.Pause()):
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// after waits for files, and calls a function once the wait has begun.
func after(t *testing.T, w *Waiter, happen func()) State {
	t.Helper()
	states := make(chan State, 1)
	go func() { states <- wait(w) }()
	time.Sleep(30 * time.Millisecond)
	require.Empty(t, states, "it didn't wait")
	happen()
	select {
	case state := <-states:
		return state
	case <-time.After(deadline):
		require.Fail(t, "it waits still")
	}
	return 0
}

func TestExistingFilesEndTheWaitAtOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/full", "x")
	write(t, dir+"/empty", "")
	for name, f := range map[string]Files{
		"nothing to wait for":                  {},
		"a file":                               {All: []File{{Path: dir + "/empty"}}},
		"a file or its failure":                {All: []File{{Path: dir + "/empty", OrErr: true}}},
		"a file with content":                  {All: []File{{Path: dir + "/full", Content: true}}},
		"a directory":                          {All: []File{{Path: dir}}},
		"all of several":                       {All: []File{{Path: dir + "/empty"}, {Path: dir + "/full", Content: true}}},
		"what is met wins":                     {All: []File{{Path: dir + "/full"}}, Abort: []File{{Path: dir + "/empty"}}},
		"others stand for it":                  {All: []File{{Path: dir + "/none"}}, Instead: []File{{Path: dir + "/full"}, {Path: dir + "/empty"}}},
		"it, and not others":                   {All: []File{{Path: dir + "/full"}}, Instead: []File{{Path: dir + "/none"}}},
		"others, though it can't be looked at": {All: []File{{Path: dir + "/full/x"}}, Instead: []File{{Path: dir + "/full"}}},
	} {
		w := NewWaiter(f, 0)
		require.Equal(t, Met, w.Look(), name)
		require.NoError(t, w.Err(), name)
	}
}

func TestWaitsUntil(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(dir string)
		files   func(dir string) Files
		limit   time.Duration
		happen  func(dir string)
		want    State
	}{
		"a file is created": {
			files:  func(dir string) Files { return Files{All: []File{{Path: dir + "/out"}}} },
			happen: func(dir string) { write(t, dir+"/out", "") },
		},
		"a file is moved there": {
			prepare: func(dir string) { write(t, dir+"/new", "") },
			files:   func(dir string) Files { return Files{All: []File{{Path: dir + "/out"}}} },
			happen:  func(dir string) { require.NoError(t, os.Rename(dir+"/new", dir+"/out")) },
		},
		"a file has content": {
			prepare: func(dir string) { write(t, dir+"/out", "") },
			files:   func(dir string) Files { return Files{All: []File{{Path: dir + "/out", Content: true}}} },
			happen:  func(dir string) { write(t, dir+"/out", "x") },
		},
		"the downward API has swapped its link": {
			prepare: func(dir string) {
				require.NoError(t, os.Mkdir(dir+"/..1", 0o700))
				write(t, dir+"/..1/ready", "")
				require.NoError(t, os.Symlink("..1", dir+"/..data"))
				require.NoError(t, os.Symlink("..data/ready", dir+"/ready"))
			},
			files: func(dir string) Files { return Files{All: []File{{Path: dir + "/ready", Content: true}}} },
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
				return Files{All: []File{{Path: dir + "/a"}, {Path: dir + "/other/b"}}}
			},
			happen: func(dir string) { write(t, dir+"/other/b", ""); write(t, dir+"/a", "") },
		},
		"the last of those is there that stand for it": {
			prepare: func(dir string) {
				require.NoError(t, os.Mkdir(dir+"/other", 0o700))
				write(t, dir+"/a", "")
			},
			files: func(dir string) Files {
				return Files{All: []File{{Path: dir + "/out"}}, Instead: []File{{Path: dir + "/a"}, {Path: dir + "/other/b"}}}
			},
			happen: func(dir string) { write(t, dir+"/other/b", "") },
		},
		"its directory is there, too": {
			files: func(dir string) Files { return Files{All: []File{{Path: dir + "/later/out"}}} },
			happen: func(dir string) {
				require.NoError(t, os.Mkdir(dir+"/later", 0o700))
				write(t, dir+"/later/out", "")
			},
		},
		"one of two is there": {
			files: func(dir string) Files {
				return Files{All: []File{{Path: dir + "/out", OrErr: true}}, Abort: []File{{Path: dir + "/cancel"}}}
			},
			happen: func(dir string) { write(t, dir+"/out.err", "") },
		},
		"it is in vain": {
			prepare: func(dir string) { write(t, dir+"/cancel", "") },
			files: func(dir string) Files {
				return Files{All: []File{{Path: dir + "/out"}}, Abort: []File{{Path: dir + "/cancel", Content: true}, {Path: dir + "/out.err"}}}
			},
			happen: func(dir string) { write(t, dir+"/out.err", "") },
			want:   Aborted,
		},
		"the time is up": {
			files: func(dir string) Files {
				return Files{All: []File{{Path: dir + "/out"}}}
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
			w := NewWaiter(test.files(dir), test.limit)
			defer w.Close()
			want := test.want
			if want == Waiting {
				want = Met
			}
			require.Equal(t, want, after(t, w, func() { test.happen(dir) }))
			require.NoError(t, w.Err())
		})
	}
}

// TestAChangeIsNoticedAtOnce doesn't look before the signal.
func TestAChangeIsNoticedAtOnce(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	defer signal.Stop(signals)
	for name, change := range map[string]func(dir string){
		"created": func(dir string) { write(t, dir+"/out", "") },
		"renamed": func(dir string) { require.NoError(t, os.Rename(dir+"/old", dir+"/out")) },
		"moved":   func(dir string) { require.NoError(t, os.Rename(dir+"/sub/old", dir+"/out")) },
		"written": func(dir string) {
			f, err := os.OpenFile(dir+"/old", os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteString("x") // and still open
			require.NoError(t, err)
			t.Cleanup(func() { _ = f.Close() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(dir+"/sub", 0o700))
			write(t, dir+"/old", "")
			write(t, dir+"/sub/old", "")
			w := NewWaiter(Files{All: []File{{Path: dir + "/out"}}}, 0)
			defer w.Close()
			require.Equal(t, Waiting, w.Look())
			require.True(t, w.watch.complete())
			change(dir)
			select {
			case <-signals:
			case <-time.After(deadline):
				require.Fail(t, "nothing was told")
			}
		})
	}
}

// TestWaitsWithoutAWatch leaves no descriptor for a directory.
func TestWaitsWithoutAWatch(t *testing.T) {
	dir := t.TempDir()
	w := NewWaiter(Files{All: []File{{Path: dir + "/out"}}}, 0)
	defer w.Close()
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}))
	state, pause := w.Look(), w.Pause()
	complete := w.watch.complete()
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	require.Equal(t, Waiting, state)
	require.False(t, complete)
	require.LessOrEqual(t, pause, firstInterval)

	time.Sleep(minInterval)
	require.Equal(t, Waiting, w.Look())
	require.True(t, w.watch.complete(), "and tries again")

	write(t, dir+"/out", "")
	require.Equal(t, Met, wait(w))
}

// TestTheIntervalGrowsWithTheWait if no directory is watched.
func TestTheIntervalGrowsWithTheWait(t *testing.T) {
	w := NewWaiter(Files{All: []File{{Path: t.TempDir() + "/missing/out"}}}, 0)
	require.Equal(t, Waiting, w.Look())
	before := time.Duration(0)
	for _, waited := range []time.Duration{0, 120 * time.Millisecond, 300 * time.Millisecond, time.Hour} {
		w.firstLook = time.Now().Add(-waited)
		w.lastLook = time.Now()
		pause := w.Pause()
		require.Greater(t, pause, before, waited)
		require.LessOrEqual(t, pause, lastInterval)
		before = pause
	}
}

// TestABusyDirectoryIsCheckedAtMinInterval although thousands of changes may happen in
// a second.
func TestABusyDirectoryIsCheckedAtMinInterval(t *testing.T) {
	dir := t.TempDir()
	w := NewWaiter(Files{All: []File{{Path: dir + "/out"}}}, 0)
	defer w.Close()
	require.Equal(t, Waiting, w.Look())
	looked := w.lastLook
	write(t, dir+"/out", "")
	if state := w.Look(); time.Since(looked) < minInterval {
		require.Equal(t, Waiting, state)
	}
	require.LessOrEqual(t, w.Pause(), minInterval)
	time.Sleep(minInterval)
	require.Equal(t, Met, w.Look())
}

// TestAnUnreadableFileMayComeBack within errorTolerance.
func TestAnUnreadableFileMayComeBack(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/volume", "")
	w := NewWaiter(Files{All: []File{{Path: dir + "/volume/out"}}}, 0)
	defer w.Close()
	require.Equal(t, Waiting, w.Look())
	require.ErrorIs(t, w.Err(), unix.ENOTDIR)
	require.LessOrEqual(t, w.Pause(), lastInterval)
	require.NoError(t, os.Remove(dir+"/volume"))
	require.NoError(t, os.Mkdir(dir+"/volume", 0o700))
	write(t, dir+"/volume/out", "")
	require.Equal(t, Met, wait(w))
	require.NoError(t, w.Err())
}

func TestAnInvalidPathEndsTheWait(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	w := NewWaiter(Files{All: []File{{Path: file + "/out"}}}, 0)
	defer w.Close()
	start := time.Now()
	require.Equal(t, Unknown, wait(w))
	require.GreaterOrEqual(t, time.Since(start), errorTolerance)
	require.ErrorIs(t, w.Err(), unix.ENOTDIR)
	require.ErrorContains(t, w.Err(), "waiting for "+file+"/out: ")
}

func TestADirectoryThatIsReplacedIsWatchedAgain(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	defer signal.Stop(signals)
	for name, giveUp := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"renamed": func(dir string) error { return os.Rename(dir, dir+".old") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir() + "/creds"
			require.NoError(t, os.Mkdir(dir, 0o700))
			w := NewWatch([]string{dir}, true)
			defer w.close()
			w.Arm()
			require.NoError(t, giveUp(dir))
			w.Arm()
			require.NoError(t, os.Mkdir(dir, 0o700))
			w.Arm()
			write(t, dir+"/token", "")
			select {
			case <-signals:
			case <-time.After(time.Second):
				require.Fail(t, "nothing was told")
			}
		})
	}
}

// TestTheWatchUsesNoInotifyInstance, because a user of a node has only a limited
// number.
func TestTheWatchUsesNoInotifyInstance(t *testing.T) {
	const waiting = 200
	if os.Getenv("AWAIT_WATCHERS") == "" {
		// A user namespace of its own has limits of its own.
		cmd := exec.Command(os.Args[0], "-test.run=^TestTheWatchUsesNoInotifyInstance$", "-test.v")
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
	for _, limit := range []string{"max_inotify_instances", "max_inotify_watches"} {
		require.NoError(t, os.WriteFile("/proc/sys/user/"+limit, []byte("1"), 0))
	}
	for range waiting {
		w := NewWaiter(Files{All: []File{{Path: t.TempDir() + "/out"}}}, 0)
		defer w.Close()
		require.Equal(t, Waiting, w.Look())
		require.True(t, w.watch.complete())
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	require.NoError(t, err)
	_, err = unix.InotifyAddWatch(fd, t.TempDir(), unix.IN_CREATE)
	require.NoError(t, err)
}
