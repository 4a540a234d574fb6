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
	"github.com/entrypointer/entrypointer/pkg/conditions"
	"github.com/entrypointer/entrypointer/pkg/exitcodes"
)

// live publishes a phase of a new incarnation, which lives until the test calls die.
func live(t *testing.T, dir string, phase Phase, exitCode int) *Incarnation {
	t.Helper()
	i := NewIncarnation(dir, false, unix.Write)
	i.Publish(phase, exitCode)
	require.NoError(t, i.Err())
	t.Cleanup(func() { die(i) })
	return i
}

// die does what the kernel does when a process is killed.
func die(i *Incarnation) {
	for _, fd := range []*int{&i.lock, &i.reserved} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
			*fd = -1
		}
	}
}

// verdicts are the states for a dependency of which no end is known to be final, and for one
// that is never restarted.
type verdicts [2]await.State

func judgements(dir string, heartbeats bool) map[conditions.Condition]verdicts {
	all := map[conditions.Condition]verdicts{}
	for _, condition := range conditions.All {
		var v verdicts
		for n, final := range []FinalEnds{{}, {Codes: exitcodes.Set{{From: 0, To: 255}}}} {
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

// TestOnlyAFinalEndCounts: after another one, the container is restarted, and can still
// meet each condition. A container that was killed has the exit code 137.
func TestOnlyAFinalEndCounts(t *testing.T) {
	for name, test := range map[string]struct {
		final string
		end   func(dir string)
		want  map[conditions.Condition]await.State
	}{
		"a success under OnFailure": {"0", func(dir string) { die(live(t, dir, Ended, 0)) }, map[conditions.Condition]await.State{conditions.Started: await.Failed, conditions.Ready: await.Failed, conditions.Completed: await.Met, conditions.Exited: await.Met}},
		"a failure under OnFailure": {"0", func(dir string) { die(live(t, dir, Ended, 3)) }, map[conditions.Condition]await.State{}},
		"a kill under OnFailure":    {"0", func(dir string) { die(live(t, dir, Ready, 0)) }, map[conditions.Condition]await.State{}},
		"a failure without a rule":  {"0-2,4-255", func(dir string) { die(live(t, dir, Ended, 2)) }, map[conditions.Condition]await.State{conditions.Started: await.Failed, conditions.Ready: await.Failed, conditions.Completed: await.Failed, conditions.Exited: await.Met}},
		"a failure with a rule":     {"0-2,4-255", func(dir string) { die(live(t, dir, Ended, 3)) }, map[conditions.Condition]await.State{}},
		"a kill without a rule":     {"0-2,4-255", func(dir string) { die(live(t, dir, Ready, 0)) }, map[conditions.Condition]await.State{conditions.Started: await.Failed, conditions.Ready: await.Failed, conditions.Completed: await.Failed, conditions.Exited: await.Met}},
		"a kill with a rule":        {"0-136,138-255", func(dir string) { die(live(t, dir, Ready, 0)) }, map[conditions.Condition]await.State{}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			test.end(dir)
			named, final, ok := ParseFinalEnds(test.final + ":" + dir)
			require.True(t, ok)
			require.Equal(t, dir, named)
			for _, condition := range conditions.All {
				state, err := NewDependencies([]Dependency{{Condition: condition, Dir: dir, Final: final}}, false).Look()
				require.NoError(t, err)
				require.Equal(t, test.want[condition], state, condition)
			}
		})
	}
}

func all(v verdicts) map[conditions.Condition]verdicts {
	return map[conditions.Condition]verdicts{conditions.Started: v, conditions.Ready: v, conditions.Completed: v, conditions.Exited: v}
}

func TestConditionsInEachState(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(dir string)
		want    map[conditions.Condition]verdicts
	}{
		"never started": {func(string) {}, all(wait)},
		"preparing":     {func(dir string) { live(t, dir, Preparing, 0) }, all(wait)},
		"started": {
			func(dir string) { live(t, dir, Started, 0) },
			map[conditions.Condition]verdicts{conditions.Started: met, conditions.Ready: wait, conditions.Completed: wait, conditions.Exited: wait},
		},
		"ready": {
			func(dir string) { live(t, dir, Ready, 0) },
			map[conditions.Condition]verdicts{conditions.Started: met, conditions.Ready: met, conditions.Completed: wait, conditions.Exited: wait},
		},
		"ended well, and still there": {
			func(dir string) { live(t, dir, Ended, 0) },
			map[conditions.Condition]verdicts{conditions.Started: failed, conditions.Ready: failed, conditions.Completed: met, conditions.Exited: met},
		},
		"ended well": {
			func(dir string) { die(live(t, dir, Ended, 0)) },
			map[conditions.Condition]verdicts{conditions.Started: failed, conditions.Ready: failed, conditions.Completed: met, conditions.Exited: met},
		},
		"failed": {
			func(dir string) { die(live(t, dir, Ended, 3)) },
			map[conditions.Condition]verdicts{conditions.Started: failed, conditions.Ready: failed, conditions.Completed: failed, conditions.Exited: met},
		},
		"killed while it prepared": {
			func(dir string) { die(live(t, dir, Preparing, 0)) },
			map[conditions.Condition]verdicts{conditions.Started: failed, conditions.Ready: failed, conditions.Completed: failed, conditions.Exited: met},
		},
		"killed when it was ready": {
			func(dir string) { die(live(t, dir, Ready, 0)) },
			map[conditions.Condition]verdicts{conditions.Started: failed, conditions.Ready: failed, conditions.Completed: failed, conditions.Exited: met},
		},
		"killed between lock and state": {
			func(dir string) {
				die(live(t, dir, Ready, 0))
				require.NoError(t, os.Remove(dir+stateName))
			},
			map[conditions.Condition]verdicts{conditions.Started: failed, conditions.Ready: failed, conditions.Completed: failed, conditions.Exited: met},
		},
		// The state of an earlier incarnation doesn't count once there is a new one.
		"has completed, and was restarted": {
			func(dir string) {
				die(live(t, dir, Ended, 0))
				keepingState(t, dir, func() { live(t, dir, Preparing, 0) })
			},
			all(wait),
		},
		"was ready, and was restarted": {
			func(dir string) {
				die(live(t, dir, Ready, 0))
				keepingState(t, dir, func() { live(t, dir, Preparing, 0) })
			},
			all(wait),
		},
		"has completed, and was killed after its restart, before its first state": {
			func(dir string) {
				die(live(t, dir, Ended, 0))
				keepingState(t, dir, func() { die(live(t, dir, Preparing, 0)) })
			},
			map[conditions.Condition]verdicts{conditions.Started: failed, conditions.Ready: failed, conditions.Completed: failed, conditions.Exited: met},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			test.prepare(dir)
			require.Equal(t, test.want, judgements(dir, false))
		})
	}
}

// keepingState runs a function, and restores the state after it.
func keepingState(t *testing.T, dir string, happen func()) {
	t.Helper()
	data, err := os.ReadFile(dir + stateName)
	require.NoError(t, err)
	happen()
	require.NoError(t, os.WriteFile(dir+stateName, data, 0o600))
}

// TestAnUnreadableStateMeetsNoCondition replaces the state and the lock of a container
// that is ready or has completed.
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
					ds := NewDependencies([]Dependency{{Condition: conditions.Ready, Dir: dir}}, false)
					_, _ = ds.Look()
					require.True(t, ds.Unmet()[0].Problem)
				}
			})
		}
	}
}

// TestAReadOnlyDescriptorTakesNoLock takes all locks that a read-only directory allows,
// before and after the owner's death.
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
	require.Equal(t, met, judgements(dir, false)[conditions.Ready])
	die(i)
	grab()
	require.Equal(t, failed, judgements(dir, false)[conditions.Ready])
	live(t, dir, Started, 0)
	require.Equal(t, met, judgements(dir, false)[conditions.Started])
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

	// A container that starts later needs a changed heartbeat before it counts as
	// alive.
	o := &observer{dir: dir, heartbeats: true}
	require.Equal(t, alive, early.observe(now).liveness)
	require.Equal(t, undetermined, o.observe(now).liveness)
	require.Equal(t, wait, judgements(dir, true)[conditions.Ready])
	require.Equal(t, undetermined, looks(o, maxSilence/2).liveness)
	beat()
	require.Equal(t, alive, o.observe(now).liveness)
	require.Equal(t, alive, looks(o, maxSilence-time.Second).liveness)
	beat()
	require.Equal(t, alive, looks(o, maxSilence-time.Second).liveness)

	// An observer that was suspended itself doesn't count that time as silence.
	now = now.Add(time.Hour)
	require.Equal(t, alive, o.observe(now).liveness)

	require.Equal(t, dead, looks(o, 2*time.Second).liveness)
	beat()
	require.Equal(t, alive, o.observe(now).liveness, "it was stopped")

	// With heartbeats there is no lock, because locks may not work across kernels.
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

	// A published end counts at once.
	live(t, dir, Ended, 0)
	require.Equal(t, met, judgements(dir, true)[conditions.Completed])
	require.Equal(t, met, judgements(dir, true)[conditions.Exited])
}
