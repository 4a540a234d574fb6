// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// forwardable are the signals that a process can handle, except those that the C
// library reserves (32, 33).
func forwardable() (list []syscall.Signal) {
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		switch sig {
		case syscall.SIGKILL, syscall.SIGSTOP, 32, 33:
		case 34, syscall.SIGPROF, syscall.SIGCHLD, syscall.SIGURG:
			if *tags != "portable" { // package os/signal doesn't deliver them, or doesn't tell their sender
				list = append(list, sig)
			}
		default:
			list = append(list, sig)
		}
	}
	return list
}

// waitForSignals is a shell command that prints that it is ready and then only runs
// traps, see listening.
const waitForSignals = "echo ready; while :; do read x; done"

// listening gives a command empty lines on stdin. A signal interrupts the shell's read,
// unless it arrives just before the read. Without a line, its trap would wait for
// another signal.
func listening(t testing.TB) func(*exec.Cmd) {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := write.WriteString("\n"); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		_ = write.Close()
		<-ended
		_ = read.Close()
	})
	return func(cmd *exec.Cmd) { cmd.Stdin = read }
}

// echo is a shell command that prints the number of each signal that it receives. It
// needs listening.
func echo(list ...syscall.Signal) []string {
	var b strings.Builder
	for _, sig := range list {
		fmt.Fprintf(&b, "trap 'echo %d' %d\n", sig, sig)
	}
	b.WriteString(waitForSignals)
	return []string{"sh", "-c", b.String()}
}

func TestForwardsEverySignal(t *testing.T) {
	list := forwardable()
	p := begin(t, supervised(echo(list...)...), listening(t))
	p.expect("ready")
	for _, sig := range list {
		p.send(sig)
		p.expect(strconv.Itoa(int(sig)))
	}
}

// TestSignalsForTheSupervisorAreNotForwarded: the kernel sends SIGCHLD about an orphan,
// and the Go runtime sends SIGURG when it starts a process.
func TestSignalsForTheSupervisorAreNotForwarded(t *testing.T) {
	t.Parallel()
	p := begin(t, supervised("sh", "-c", "trap 'echo 23' 23; (sh -c 'sleep 0.05; exit 0' &); trap 'echo 17' 17; trap 'echo 10' 10;"+waitForSignals), listening(t))
	p.expect("ready")
	time.Sleep(100 * time.Millisecond)
	p.send(syscall.SIGUSR1)
	p.expect(strconv.Itoa(int(syscall.SIGUSR1)))
}

func TestABurstOfStandardSignals(t *testing.T) {
	p := begin(t, supervised("sh", "-c", "trap : USR1 HUP; trap 'echo end; exit 3' TERM;"+waitForSignals), listening(t))
	p.expect("ready")
	for range 10_000 {
		p.send(syscall.SIGUSR1)
		p.send(syscall.SIGHUP)
	}
	p.send(syscall.SIGTERM)
	p.expect("end")
	require.Equal(t, 3, p.end())
}

// TestKeepsSignalsUntilTheChildExists sends a signal while the supervisor still
// searches a PATH of ten thousand directories, each behind as many symbolic links as
// the kernel follows.
func TestKeepsSignalsUntilTheChildExists(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Mkdir(dir+"/end", 0o755))
	target := "end"
	for i := range 39 {
		link := strconv.Itoa(i)
		require.NoError(t, os.Symlink(target, dir+"/"+link))
		target = strings.Repeat("./", 20) + link
	}
	path := strings.Repeat("38:", 10_000) + "/usr/bin:/bin"
	list := []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGQUIT, syscall.SIGSEGV}
	if *tags != "portable" { // where it is one that stops
		list = append(list, lastCaught())
	}
	for _, sig := range list {
		p := begin(t, supervised("sleep", "60"), func(cmd *exec.Cmd) { cmd.Dir, cmd.Env = dir, []string{"PATH=" + path} })
		waitUntilCatching(t, p)
		p.send(sig)
		require.Empty(t, children(p.Process.Pid), "the child was there too early for this test")
		require.Equal(t, 128+int(sig), p.end())
	}
}

// lastCaught is the last signal, in the order in which the supervisor installs
// handlers, for which the Go runtime has no handler before.
func lastCaught() syscall.Signal {
	if *tags == "portable" {
		return syscall.SIGTTOU
	}
	return 34
}

// waitUntilCatching waits until the supervisor has installed its handlers up to
// lastCaught.
func waitUntilCatching(t *testing.T, p *process) {
	for start := time.Now(); ; {
		require.Less(t, time.Since(start), deadline)
		mask, err := strconv.ParseUint(statusField(t, p.Process.Pid, "SigCgt"), 16, 64)
		require.NoError(t, err)
		if mask&(1<<(lastCaught()-1)) != 0 && strings.HasSuffix(executable(p.Process.Pid), "/entrypoint") {
			return
		}
	}
}

func TestForwardsSignalsThatWereBlockedAtTheStart(t *testing.T) {
	p := begin(t, supervised(child, "echo", "got"), blocked(38, 39))
	p.expect("ready")
	p.send(38)
	p.expect("got")
	p.send(39)
	p.expect("got")
}

// TestForwardsSignalsThatWereIgnoredAtTheStart covers a program under nohup(1) that
// handles SIGHUP.
func TestForwardsSignalsThatWereIgnoredAtTheStart(t *testing.T) {
	argv := append([]string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh"}, supervised(child, "spin")...)
	p := begin(t, argv)
	p.expect("ready") // a Go program, which leaves SIGHUP ignored
	p.send(syscall.SIGHUP)
	p.send(syscall.SIGUSR2)
	p.send(syscall.SIGTERM)
	require.Equal(t, 128+int(syscall.SIGTERM), p.end())
}

func TestStopIsNotAnEnd(t *testing.T) {
	t.Parallel()
	for _, stop := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN} {
		p := begin(t, supervised("sh", "-c", "echo ready; read x; exit 4"), func(cmd *exec.Cmd) { cmd.Stdin = silence(t) })
		p.expect("ready")
		pid := childOf(t, p.Process.Pid)
		require.NoError(t, syscall.Kill(pid, stop))
		require.Eventually(t, func() bool { return len(childrenInState(p.Process.Pid, "T")) == 1 }, deadline, time.Millisecond)
		select {
		case <-p.done:
			t.Fatal("ended")
		case <-time.After(50 * time.Millisecond):
		}
		p.send(syscall.SIGTERM) // stays pending
		p.send(syscall.SIGCONT)
		require.Equal(t, 128+int(syscall.SIGTERM), p.end())
	}
}

// blocked starts a command with signals blocked.
func blocked(list ...int) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		// A child inherits the mask of the thread that forks. This thread ends with its
		// locked goroutine.
		runtime.LockOSThread()
		var set unix.Sigset_t
		for _, sig := range list {
			set.Val[0] |= 1 << (sig - 1)
		}
		_ = unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
	}
}

// TestARefusedSignalIsReportedOnce: the command becomes root by its file's mode, as
// sudo does. The supervisor isn't root and may not signal it any more (kill(2)).
func TestARefusedSignalIsReportedOnce(t *testing.T) {
	needRoot(t, "a file that makes its process root's")
	raise := raising(t)
	p := begin(t, []string{entrypoint, "--", raise, "raise"}, asUser(65534))
	p.expect("raised")
	p.send(syscall.SIGTERM)
	p.send(syscall.SIGTERM)
	p.expect("entrypointer: forwarding SIGTERM to the command: operation not permitted: it runs as another user than the container's: " +
		"run the container as that user, or set mode: exec")
	p.send(syscall.SIGUSR1)
	require.Contains(t, p.line(), "forwarding SIGUSR1 ", "once for each")
	require.NoError(t, syscall.Kill(childOf(t, p.Process.Pid), syscall.SIGKILL))
	require.Equal(t, 137, p.end())
}

// TestATimeoutThatCannotEndTheCommandEndsTheContainer, because the end of PID 1 kills
// all processes of the namespace.
func TestATimeoutThatCannotEndTheCommandEndsTheContainer(t *testing.T) {
	needRoot(t, "a file that makes its process root's")
	raise := raising(t)
	status := filepath.Join(filepath.Dir(raise), "status")
	p := begin(t, []string{entrypoint, "-timeout=2s", "-grace-period=50ms", "-status-file=" + status, "--", raise, "raise"}, asPID1, asUser(65534))
	p.expect("raised")
	command := childOf(t, p.Process.Pid)
	require.Equal(t, "entrypointer: the command timed out after 2s (entrypointer.dev/timeout); it can't be killed: operation not permitted: "+
		"it runs as another user than the container's: run the container as that user, or set mode: exec", p.line())
	require.Equal(t, 124, p.end())
	require.Eventually(t, func() bool { return syscall.Kill(command, 0) != nil }, deadline, time.Millisecond)
	said, err := os.ReadFile(status)
	require.NoError(t, err)
	require.Contains(t, string(said), `"reason":"Timeout","exitCode":124,"message":"the command timed out`)
}

// TestAPauseAfterACommandThatCannotBeEndedEnds, because the supervisor forwards no
// signals any more.
func TestAPauseAfterACommandThatCannotBeEndedEnds(t *testing.T) {
	needRoot(t, "a file that makes its process root's")
	for _, release := range []syscall.Signal{syscall.SIGCONT, syscall.SIGTERM} {
		p := begin(t, []string{entrypoint, "-timeout=2s", "-grace-period=50ms", "-pause=after-failure", "--", raising(t), "raise"}, asUser(65534))
		p.expect("raised")
		require.Contains(t, p.line(), "it can't be killed: operation not permitted")
		require.Contains(t, p.line(), "paused after-failure")
		command := childOf(t, p.Process.Pid)
		p.send(release)
		require.Equal(t, 124, p.end())
		require.NoError(t, syscall.Kill(command, syscall.SIGKILL))
	}
}

// TestAKillOfAllProcessesOfAUserHasTheSameEffectAsWithoutASupervisor in a pod whose
// containers share a process namespace: it ends the command, or the supervisor and so
// the command.
func TestAKillOfAllProcessesOfAUserHasTheSameEffectAsWithoutASupervisor(t *testing.T) {
	t.Parallel()
	needRoot(t, "a PID namespace")
	const nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups"
	script := nobody + ` "$@" & read x; ` + nobody + " sh -c 'kill -9 -1'; wait $!; echo ended-$?"
	for name, argv := range map[string][]string{"bare": nil, "wrapped": supervised()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			argv := slices.Concat([]string{"sh", "-c", script, "sh"}, argv, []string{"sh", "-c", "echo ready; exec sleep 60"})
			read, write, err := os.Pipe()
			require.NoError(t, err)
			defer read.Close()
			p := begin(t, argv, asPID1, func(cmd *exec.Cmd) { cmd.Stdin, cmd.Stderr = read, nil }) // where the shell says "Killed"
			p.expect("ready")
			require.NoError(t, write.Close())
			p.expect("ended-137")
		})
	}
}

// TestACommandThatStopsTheSupervisorIsKilledByTheRuntime: a process of the same user
// may stop the supervisor with ptrace(2). SIGKILL from the container runtime ends the
// container all the same.
func TestACommandThatStopsTheSupervisorIsKilledByTheRuntime(t *testing.T) {
	needRoot(t, "a PID namespace")
	p := begin(t, supervised(child, "trace"), asPID1)
	p.expect("traced")
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(p.Process.Pid) + "/stat")
		return err == nil && strings.Contains(string(stat), ") T ")
	}, deadline, time.Millisecond)
	p.send(syscall.SIGTERM)
	p.send(syscall.SIGKILL)
	require.Equal(t, 137, p.end())
}

// raising is the child program with a mode that makes it root's, in a directory of the
// user nobody.
func raising(t *testing.T) (path string) {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if info, err := os.Stat(d); err == nil && info.Mode()&0o001 == 0 {
			require.NoError(t, os.Chmod(d, info.Mode()|0o055))
		}
	}
	require.NoError(t, os.Chmod(dir, 0o777))
	data, err := os.ReadFile(child)
	require.NoError(t, err)
	path = filepath.Join(dir, "child")
	require.NoError(t, os.WriteFile(path, data, 0o755))
	require.NoError(t, os.Chmod(path, 0o755|os.ModeSetuid))
	return path
}

func asUser(id uint32) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: id, Gid: id}
	}
}
