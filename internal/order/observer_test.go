// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/await"
)

// live is an incarnation that was told of, until the test has it die.
func live(t *testing.T, dir string, phase Phase, exitCode int) *Incarnation {
	t.Helper()
	i := NewIncarnation(dir, false, unix.Write)
	i.Publish(phase, exitCode)
	require.NoError(t, i.Err())
	t.Cleanup(func() { die(i) })
	return i
}

// die is what the kernel does when a process is killed.
func die(i *Incarnation) {
	for _, fd := range []*int{&i.lock, &i.reserved} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
			*fd = -1
		}
	}
}

// verdicts are of a container that is restarted, and of one that isn't.
type verdicts [2]await.State

func judgements(dir string, heartbeats bool) map[Condition]verdicts {
	all := map[Condition]verdicts{}
	for _, condition := range []Condition{IsStarted, IsReady, IsCompleted, HasExited} {
		var v verdicts
		for n, final := range []bool{false, true} {
			v[n], _ = NewDependencies([]Dependency{{Condition: condition, Dir: dir, Final: final}}, heartbeats).Look()
		}
		all[condition] = v
	}
	return all
}

var (
	wait   = verdicts{await.Waiting, await.Waiting}
	met    = verdicts{await.Met, await.Met}
	failed = verdicts{await.Waiting, await.Failed}
)

func all(v verdicts) map[Condition]verdicts {
	return map[Condition]verdicts{IsStarted: v, IsReady: v, IsCompleted: v, HasExited: v}
}

func TestConditionsInEachState(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(dir string)
		want    map[Condition]verdicts
	}{
		"nobody was there": {func(string) {}, all(wait)},
		"preparing":        {func(dir string) { live(t, dir, Preparing, 0) }, all(wait)},
		"started": {
			func(dir string) { live(t, dir, Started, 0) },
			map[Condition]verdicts{IsStarted: met, IsReady: wait, IsCompleted: wait, HasExited: wait},
		},
		"ready": {
			func(dir string) { live(t, dir, Ready, 0) },
			map[Condition]verdicts{IsStarted: met, IsReady: met, IsCompleted: wait, HasExited: wait},
		},
		"ended well, and still there": {
			func(dir string) { live(t, dir, Ended, 0) },
			map[Condition]verdicts{IsStarted: failed, IsReady: failed, IsCompleted: met, HasExited: met},
		},
		"ended well": {
			func(dir string) { die(live(t, dir, Ended, 0)) },
			map[Condition]verdicts{IsStarted: failed, IsReady: failed, IsCompleted: met, HasExited: met},
		},
		"failed": {
			func(dir string) { die(live(t, dir, Ended, 3)) },
			map[Condition]verdicts{IsStarted: failed, IsReady: failed, IsCompleted: failed, HasExited: met},
		},
		"killed while it prepared": {
			func(dir string) { die(live(t, dir, Preparing, 0)) },
			map[Condition]verdicts{IsStarted: failed, IsReady: failed, IsCompleted: failed, HasExited: met},
		},
		"killed when it was ready": {
			func(dir string) { die(live(t, dir, Ready, 0)) },
			map[Condition]verdicts{IsStarted: failed, IsReady: failed, IsCompleted: failed, HasExited: met},
		},
		"killed between lock and state": {
			func(dir string) {
				die(live(t, dir, Ready, 0))
				require.NoError(t, os.Remove(dir+stateName))
			},
			map[Condition]verdicts{IsStarted: failed, IsReady: failed, IsCompleted: failed, HasExited: met},
		},
		// What a past life has said counts no more, once there is a new one.
		"has completed, and lives anew": {
			func(dir string) {
				die(live(t, dir, Ended, 0))
				keepingState(t, dir, func() { live(t, dir, Preparing, 0) })
			},
			all(wait),
		},
		"was ready, and lives anew": {
			func(dir string) {
				die(live(t, dir, Ready, 0))
				keepingState(t, dir, func() { live(t, dir, Preparing, 0) })
			},
			all(wait),
		},
		"has completed, and is killed anew before it says anything": {
			func(dir string) {
				die(live(t, dir, Ended, 0))
				keepingState(t, dir, func() { die(live(t, dir, Preparing, 0)) })
			},
			map[Condition]verdicts{IsStarted: failed, IsReady: failed, IsCompleted: failed, HasExited: met},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			test.prepare(dir)
			require.Equal(t, test.want, judgements(dir, false))
		})
	}
}

// keepingState has something happen, but the state be what it was.
func keepingState(t *testing.T, dir string, happen func()) {
	t.Helper()
	data, err := os.ReadFile(dir + stateName)
	require.NoError(t, err)
	happen()
	require.NoError(t, os.WriteFile(dir+stateName, data, 0o600))
}

// TestAnUnreadableStateMeetsNoCondition puts things in the place of the state and of the lock
// of a container that is ready, or has completed.
func TestAnUnreadableStateMeetsNoCondition(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a pipe":                 func(path string) error { return unix.Mkfifo(path, 0o644) },
		"a link to the real one": func(path string) error { return os.Symlink(path+".real", path) },
		"a link to nowhere":      func(path string) error { return os.Symlink("/nowhere", path) },
		"an endless device":      func(path string) error { return os.Symlink("/dev/zero", path) },
		"a directory":            func(path string) error { return os.Mkdir(path, 0o755) },
		"a socket": func(path string) error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			return errors.Join(err, unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Close(fd))
		},
		"much":        func(path string) error { return os.WriteFile(path, make([]byte, 1<<20), 0o600) },
		"a huge hole": func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)) },
		"nothing":     func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"half of it": func(path string) error {
			data, err := os.ReadFile(path + ".real")
			return errors.Join(err, os.WriteFile(path, data[:len(data)-2], 0o600))
		},
		"garbage": func(path string) error { return os.WriteFile(path, []byte("order 1\nphase ready\n"), 0o600) },
	} {
		for _, file := range []string{stateName, lockName} {
			t.Run(name+file, func(t *testing.T) {
				for _, incarnation := range []func(dir string){
					func(dir string) { live(t, dir, Ready, 0) },
					func(dir string) { die(live(t, dir, Ended, 0)) },
				} {
					dir := t.TempDir()
					incarnation(dir)
					require.NoError(t, os.Rename(dir+file, dir+file+".real"))
					require.NoError(t, put(dir+file))
					require.Equal(t, all(wait), judgements(dir, false))
					ds := NewDependencies([]Dependency{{Condition: IsReady, Dir: dir}}, false)
					_, _ = ds.Look()
					require.True(t, ds.Unmet()[0].Problem)
				}
			})
		}
	}
}

// TestAReadOnlyDescriptorTakesNoLock has somebody take all locks that a directory that is
// read-only allows, before and after its owner dies.
func TestAReadOnlyDescriptorTakesNoLock(t *testing.T) {
	dir := t.TempDir()
	i := live(t, dir, Ready, 0)
	fd, err := unix.Open(dir+lockName, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	grab := func() {
		t.Helper()
		require.NoError(t, unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB))
		require.ErrorIs(t, lockFile(fd), unix.EBADF)
		_ = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK})
	}
	grab()
	require.Equal(t, met, judgements(dir, false)[IsReady])
	die(i)
	grab()
	require.Equal(t, failed, judgements(dir, false)[IsReady])
	live(t, dir, Started, 0)
	require.Equal(t, met, judgements(dir, false)[IsStarted])
}

func TestHeartbeats(t *testing.T) {
	const short = 250 * time.Millisecond
	dir := t.TempDir()
	now := time.Now()
	i := NewIncarnation(dir, true, unix.Write)
	beat := func() {
		i.next = time.Time{}
		i.Act()
		require.NoError(t, i.Err())
	}
	looks := func(o *observer, d time.Duration) (s observation) {
		for end := now.Add(d); now.Before(end); now = now.Add(short) {
			s = o.observe(now)
		}
		return s
	}
	early := &observer{dir: dir, heartbeats: true}
	require.Equal(t, absent, early.observe(now).liveness)
	i.Publish(Ready, 0)

	// Who comes later has to hear something before it believes that it lives.
	o := &observer{dir: dir, heartbeats: true}
	require.Equal(t, alive, early.observe(now).liveness)
	require.Equal(t, undetermined, o.observe(now).liveness)
	require.Equal(t, wait, judgements(dir, true)[IsReady])
	require.Equal(t, undetermined, looks(o, maxSilence/2).liveness)
	beat()
	require.Equal(t, alive, o.observe(now).liveness)
	require.Equal(t, alive, looks(o, maxSilence-time.Second).liveness)
	beat()
	require.Equal(t, alive, looks(o, maxSilence-time.Second).liveness)

	// Who was stopped itself has heard nothing in that time, and blames nobody.
	now = now.Add(time.Hour)
	require.Equal(t, alive, o.observe(now).liveness)

	require.Equal(t, dead, looks(o, 2*time.Second).liveness)
	beat()
	require.Equal(t, alive, o.observe(now).liveness, "it was stopped")

	// There is no lock, which may be beyond that kernel; one that is held says nothing.
	fd, _, err := readRegular(dir + lockName)
	require.NoError(t, err)
	held, err := isLocked(fd)
	require.NoError(t, err)
	require.False(t, held)
	require.NoError(t, unix.Close(fd))
	die(i)
	require.Equal(t, alive, o.observe(now).liveness)
	live(t, dir, Preparing, 0)
	require.Equal(t, dead, looks(o, maxSilence+2*time.Second).liveness)

	// An end is one at once.
	live(t, dir, Ended, 0)
	require.Equal(t, met, judgements(dir, true)[IsCompleted])
	require.Equal(t, met, judgements(dir, true)[HasExited])
}
