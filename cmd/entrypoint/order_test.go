// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// In these tests, web depends on db.

// orderDir is db's directory, which any user may write to, like an emptyDir.
func orderDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "db")
	require.NoError(t, os.Mkdir(dir, 0o777))
	require.NoError(t, os.Chmod(dir, 0o777))
	return dir
}

// db starts an incarnation of the dependency. After the directory come flags and the
// command.
func db(t testing.TB, dir string, args ...string) *process {
	t.Helper()
	return begin(t, append([]string{entrypoint, "-order-dir=" + dir}, args...))
}

// web waits for a condition such as -depends-on=started, and prints that it has
// started.
func web(t testing.TB, dir, condition string, flags ...string) *process {
	t.Helper()
	return begin(t, slices.Concat([]string{entrypoint, condition + ":" + dir}, flags, []string{"--", "echo", "web is started"}))
}

// readyAtOnce is the flag of a command that is ready when it has started. The kernel
// creates this file when somebody looks at it for the first time.
const readyAtOnce = "-ready-file=/proc/self/limits"

// never is the flag that says that a container is never restarted.
func never(dir string) string { return "-final-exit-codes=0-255:" + dir }

// onFailure is the flag that says that a container is restarted after a failure.
func onFailure(dir string) string { return "-final-exit-codes=0:" + dir }

// hasSaid waits until db has published a phase.
func hasSaid(t testing.TB, dir, phase string) {
	t.Helper()
	require.Eventually(t, func() bool {
		data, _ := os.ReadFile(dir + "/state")
		return strings.Contains(string(data), "\nphase "+phase+"\n")
	}, deadline, time.Millisecond, phase)
}

// waits checks that a process waits: it has looked, and sleeps.
func waits(t testing.TB, p *process) {
	t.Helper()
	require.Eventually(t, func() bool { return filepath.Base(executable(p.Process.Pid)) == "entrypoint" }, deadline, time.Millisecond)
	settle(t, p.Process.Pid)
	select {
	case <-p.done:
		require.Fail(t, "it doesn't wait", "exit code %d: %s", code(p.ProcessState), p.kill(0))
	default:
	}
	require.Empty(t, children(p.Process.Pid))
}

// isStarted requires that a container starts. On a busy machine, it may have said that it
// waits.
func isStarted(t testing.TB, p *process) {
	t.Helper()
	said := p.line()
	for strings.HasPrefix(said, "entrypointer: waiting for ") {
		said = p.line()
	}
	require.Equal(t, "web is started", said)
	require.Zero(t, p.end())
}

// TestADependencyThatIsKilledIsNoticed kills db's supervisor in each phase. If db isn't
// restarted, a container that waits for a later phase fails. Otherwise it waits, and
// starts when another incarnation of db has reached that phase.
func TestADependencyThatIsKilledIsNoticed(t *testing.T) {
	t.Parallel()
	conditions := []string{"started", "ready", "completed", "exited"}
	for name, life := range map[string]struct {
		args    []string
		prepare func(dir string) // before it begins
		until   string           // the phase that it has published when it is killed
		met     []string         // conditions that are met by then or by its end
		failed  []string         // conditions that can't be met any more if this was the last incarnation
	}{
		"before it takes its lock": {},
		"between its lock and its state": {
			args: []string{"--", "sleep", "60"},
			prepare: func(dir string) {
				require.NoError(t, os.MkdirAll(dir+"/state/in the way", 0o755))
			},
			met: []string{"exited"}, failed: []string{"started", "ready", "completed"},
		},
		"in a hook": {
			args:  []string{"-before-start=sleep", "-before-start-arg=60", "--", "true"},
			until: "preparing", met: []string{"exited"}, failed: []string{"started", "ready", "completed"},
		},
		"while its command runs": {
			args:  []string{"--", "sleep", "60"},
			until: "started", met: []string{"exited"}, failed: []string{"started", "ready", "completed"},
		},
		"while its command is ready": {
			args:  []string{readyAtOnce, "--", "sleep", "60"},
			until: "ready", met: []string{"exited"}, failed: []string{"started", "ready", "completed"},
		},
		"when its command has taken its place": {
			args:  []string{"-mode=exec", "--", "sleep", "60"},
			until: "started", met: []string{"exited"}, failed: []string{"started", "ready", "completed"},
		},
		"after its command has failed": {
			args:  []string{"-pause=after-failure", "--", "false"},
			until: "ended", met: []string{"exited"}, failed: []string{"started", "ready", "completed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := orderDir(t)
			if life.prepare != nil {
				life.prepare(dir)
			}
			if life.args != nil {
				p := db(t, dir, life.args...)
				if life.until != "" {
					hasSaid(t, dir, life.until)
				} else {
					require.Eventually(t, func() bool { return len(children(p.Process.Pid)) == 1 }, deadline, time.Millisecond)
				}
				p.kill(p.Process.Pid)
			}
			if life.prepare != nil {
				require.NoError(t, os.RemoveAll(dir+"/state"))
			}
			for _, condition := range life.met {
				isStarted(t, web(t, dir, "-depends-on="+condition))
				isStarted(t, web(t, dir, "-depends-on="+condition, never(dir)))
			}
			for _, condition := range life.failed {
				p := web(t, dir, "-depends-on="+condition, never(dir))
				require.Contains(t, p.line(), "entrypointer: waiting for db:"+condition)
				require.Equal(t, 123, p.end())
			}
			var waiting []*process
			for _, condition := range conditions {
				if len(life.met) == 0 || condition != "exited" {
					waiting = append(waiting, web(t, dir, "-depends-on="+condition))
				}
			}
			for _, p := range waiting {
				waits(t, p)
			}
			next := db(t, dir, readyAtOnce, "--", "sleep", "60")
			hasSaid(t, dir, "ready")
			for _, p := range waiting[:2] {
				isStarted(t, p)
			}
			next.kill(next.Process.Pid)
			require.Zero(t, db(t, dir, "--", "true").end())
			for _, p := range waiting[2:] {
				isStarted(t, p)
			}
		})
	}
}

// TestAKilledDependencyIsNoticedDuringTheWait, within one second, although the kernel
// doesn't report it.
func TestAKilledDependencyIsNoticedDuringTheWait(t *testing.T) {
	t.Parallel()
	dir := orderDir(t)
	dependency := db(t, dir, "--", "sleep", "60")
	hasSaid(t, dir, "started")
	p := web(t, dir, "-depends-on=completed", never(dir))
	waits(t, p)
	began := time.Now()
	dependency.kill(dependency.Process.Pid)
	require.Equal(t, "entrypointer: waiting for db:completed (it ended without reporting an exit code, as after SIGKILL or for lack of memory), "+
		"which is not restarted: the command was not started: see the log of container \"db\"", p.line())
	t.Logf("noticed after %s", time.Since(began))
	require.Equal(t, 123, p.end())
}

// TestAnEndThatIsFollowedByARestartDoesNotCount as the exit of a dependency. After the
// last end, a container that waits for another condition fails.
func TestAnEndThatIsFollowedByARestartDoesNotCount(t *testing.T) {
	dir := orderDir(t)
	require.Equal(t, 3, db(t, dir, "--", "sh", "-c", "exit 3").end())
	exited, started := web(t, dir, "-depends-on=exited", onFailure(dir)), web(t, dir, "-depends-on=ready", onFailure(dir))
	helper, _ := proxy(t, stopped("TERM", "exit 3"), "-stop-when=exited:"+dir, onFailure(dir))
	helper.expect("ready")
	waits(t, exited)
	waits(t, started)
	helper.send(syscall.SIGUSR1)
	helper.expect("usr1")
	require.Zero(t, db(t, dir, "--", "true").end())
	isStarted(t, exited)
	require.Contains(t, started.line(), "waiting for db:ready (it exited with 0), which is not restarted: the command was not started")
	require.Equal(t, 123, started.end())
	require.Contains(t, helper.line(), "needed until db:exited, which is met now")
	helper.expect("stopped")
	require.Zero(t, helper.end())
}

// TestAChainNamesTheContainerThatHasFailed, and not only the one that failed because of
// it.
func TestAChainNamesTheContainerThatHasFailed(t *testing.T) {
	row := inARow(t, "db", "migrate", "web")
	require.Equal(t, 3, row[0].lives("--", "sh", "-c", "exit 3").end())
	for at := range row[1:] {
		before := row[at].dir
		p := row[at+1].lives("-depends-on=completed:"+before, never(before), "--", "true")
		require.Equal(t, 123, p.end())
		said := p.line()
		require.Contains(t, said, []string{"waiting for db:completed (it exited with 3), ", "waiting for migrate:completed (it exited with 123: db exited with 3), "}[at])
	}
}

// TestTheStatusSaysWhyADependencyIsNotReady, and the kubelet's startupProbe what the
// container waits for.
func TestTheStatusSaysWhyADependencyIsNotReady(t *testing.T) {
	dir := orderDir(t)
	dependency := db(t, dir, "-ready-tcp=127.0.0.1:1", "-ready-period=10ms", "--", "sleep", "60")
	p, control := container(t, "-depends-on=ready:"+dir, "--", "true")
	const why = "the command has started: its check of port 1 fails: connection refused"
	require.Eventually(t, func() bool { return strings.Contains(control("status").Stdout, `"seen":"`+why+`"`) }, deadline, time.Millisecond)
	probe := control("started")
	require.Equal(t, 1, probe.Code)
	require.Regexp(t, `^waiting for db:ready \(`+why+`\)( for more than 1\d?[ms0-9]+)?\n$`, probe.Stdout)
	dependency.kill(dependency.Process.Pid)
	p.kill(p.Process.Pid)
}

// TestADependencyThatIsRestartedUntilItCompletes fails, is killed, and completes. Only
// then is the condition met.
func TestADependencyThatIsRestartedUntilItCompletes(t *testing.T) {
	t.Parallel()
	dir := orderDir(t)
	p := web(t, dir, "-depends-on=completed")
	waits(t, p)
	require.Equal(t, 3, db(t, dir, "--", "sh", "-c", "exit 3").end())
	waits(t, p)
	killed := db(t, dir, "--", "sleep", "60")
	hasSaid(t, dir, "started")
	waits(t, p)
	killed.kill(killed.Process.Pid)
	waits(t, p)
	require.Zero(t, db(t, dir, "--", "true").end())
	isStarted(t, p)
}

// TestAStateCountsForItsIncarnationOnly: what an incarnation of db has published
// doesn't count for the next one.
func TestAStateCountsForItsIncarnationOnly(t *testing.T) {
	t.Parallel()
	dir := orderDir(t)
	past := db(t, dir, readyAtOnce, "--", "sleep", "60")
	hasSaid(t, dir, "ready")
	isStarted(t, web(t, dir, "-depends-on=ready"))
	past.kill(past.Process.Pid)
	early := web(t, dir, "-depends-on=ready")
	waits(t, early)

	hook := t.TempDir() + "/go"
	present := db(t, dir, "-before-start=sh", "-before-start-arg=-c", "-before-start-arg=until [ -e "+hook+" ]; do sleep 0.01; done", readyAtOnce, "--", "sleep", "60")
	hasSaid(t, dir, "preparing")
	late := web(t, dir, "-depends-on=started")
	waits(t, early)
	waits(t, late)
	require.NoError(t, os.WriteFile(hook, nil, 0o600))
	isStarted(t, early)
	isStarted(t, late)
	present.kill(present.Process.Pid)

	// It isn't completed any more once it runs again, either.
	require.Zero(t, db(t, dir, "--", "true").end())
	isStarted(t, web(t, dir, "-depends-on=completed"))
	db(t, dir, "--", "sleep", "60")
	hasSaid(t, dir, "started")
	waits(t, web(t, dir, "-depends-on=completed"))
	waits(t, web(t, dir, "-depends-on=exited"))
}

// TestAnEndingSignalEndsTheWait at once, and containers that depend on this one learn
// of the end.
func TestAnEndingSignalEndsTheWait(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"-mode=supervise", "-mode=exec"} {
		for sig, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
			dir, own := orderDir(t), orderDir(t)
			p := begin(t, []string{entrypoint, mode, "-order-dir=" + own, "-depends-on=started:" + dir, "--", "echo", "started"})
			waits(t, p)
			p.send(syscall.SIGUSR1) // the signal is forwarded to the command
			waits(t, p)
			p.send(sig)
			require.Regexp(t, "entrypointer: ended by SIG(TERM|INT) during the wait for db:started .*: the command was not started", p.line())
			require.Equal(t, code, p.end())
			data, err := os.ReadFile(own + "/state")
			require.NoError(t, err)
			require.Contains(t, string(data), "phase ended\nexit-code 1")
		}
	}
	// A container with dependents ends the wait for a file as fast as the wait for a
	// container.
	own := orderDir(t)
	p := db(t, own, "-wait-file="+own+"/missing", "--", "echo", "started")
	waits(t, p)
	p.send(syscall.SIGTERM)
	require.Contains(t, p.line(), "ended by SIGTERM during the wait for "+own+"/missing: the command was not started")
	require.Equal(t, 143, p.end())
}

// TestTheCommandInheritsNothingOfTheOrder except, in mode exec, the lock, with a
// descriptor that no shell uses.
func TestTheCommandInheritsNothingOfTheOrder(t *testing.T) {
	look := []string{"--", "sh", "-c", "ls /proc/self/fd; env | grep -i order; true"}
	bare := output(t, look[1:])
	dir := orderDir(t)
	args := append([]string{entrypoint, "-order-dir=" + dir, "-depends-on=started:" + dir, "-depends-on-timeout=1h", readyAtOnce}, look...)
	p := db(t, dir, "--", "sleep", "60")
	hasSaid(t, dir, "started")
	args[1] = "-order-dir=" + orderDir(t)
	require.Equal(t, bare, output(t, args))
	args[4] = "-mode=exec"
	require.ElementsMatch(t, append(strings.Fields(bare.Stdout), "100"), strings.Fields(output(t, args).Stdout))
	p.kill(p.Process.Pid)
}

// TestHeartbeatsWhereLocksAreNotTrusted: a container that waits from the beginning
// notices each phase at once. One that starts later waits for a heartbeat of db; after
// db's death, it waits in vain.
func TestHeartbeatsWhereLocksAreNotTrusted(t *testing.T) {
	t.Parallel()
	dir := orderDir(t)
	listens := func(condition string) *process {
		t.Helper()
		return begin(t, []string{entrypoint, "-order-heartbeat", condition + ":" + dir, "--", "echo", "web is started"})
	}
	early := listens("-depends-on=ready")
	waits(t, early)
	dependency := db(t, dir, "-order-heartbeat", readyAtOnce, "--", "sleep", "60")
	isStarted(t, early)
	hasSaid(t, dir, "ready")
	isStarted(t, listens("-depends-on=ready"))
	dependency.kill(dependency.Process.Pid)
	late := begin(t, []string{entrypoint, "-order-heartbeat", "-depends-on=ready:" + dir, never(dir), "--", "echo", "web is started"})
	time.Sleep(time.Second)
	waits(t, late)
	// A published end needs no heartbeat.
	require.Zero(t, db(t, dir, "-order-heartbeat", "--", "true").end())
	isStarted(t, listens("-depends-on=completed"))
	require.Contains(t, late.line(), "waiting for db:ready (it exited with 0)")
	require.Equal(t, 123, late.end())
}
