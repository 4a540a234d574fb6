// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// forwardable are the signals that a process can handle, but for those that
// the C library keeps to itself (32, 33), SIGCHLD and SIGURG.
func forwardable() (list []syscall.Signal) {
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		switch sig {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, syscall.SIGURG, 32, 33:
		case 34, syscall.SIGPROF:
			if *tags != "portable" { // package os/signal can't see them
				list = append(list, sig)
			}
		default:
			list = append(list, sig)
		}
	}
	return list
}

// waitForSignals is a shell command that says that it is ready and has nothing
// to do but run traps, see listening.
const waitForSignals = "echo ready; while ! read x; do :; done"

// listening gives a command a stdin on which nothing comes but traps.
func listening(t testing.TB) func(*exec.Cmd) {
	t.Helper()
	return func(cmd *exec.Cmd) { cmd.Stdin = silence(t) }
}

// echo is a shell command that prints the number of each signal that it gets. It
// needs to be listening.
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

func TestForwardsNoSIGCHLDAndNoSIGURG(t *testing.T) {
	p := begin(t, supervised(echo(syscall.SIGURG, syscall.SIGCHLD, syscall.SIGUSR1)...), listening(t))
	p.expect("ready")
	for range 100 {
		p.send(syscall.SIGURG)
		p.send(syscall.SIGCHLD)
	}
	p.send(syscall.SIGUSR1)
	p.expect(strconv.Itoa(int(syscall.SIGUSR1)))
}

func TestStandsABurstOfOrdinarySignals(t *testing.T) {
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

// TestKeepsSignalsUntilTheChildExists sends a signal while the entrypoint still
// searches a PATH of ten thousand directories, each behind as many links
// as the kernel follows.
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

// lastCaught is the last of the signals, in the order in which the entrypoint
// sets their handlers, for which the Go runtime has set none before.
func lastCaught() syscall.Signal {
	if *tags == "portable" {
		return syscall.SIGTTOU
	}
	return 34
}

// waitUntilCatching waits until the entrypoint has its handlers, up to that for
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

func TestForwardsWhatWasBlockedAtTheStart(t *testing.T) {
	p := begin(t, supervised(child, "echo", "got"), blocked(38, 39))
	p.expect("ready")
	p.send(38)
	p.expect("got")
	p.send(39)
	p.expect("got")
}

// TestForwardsWhatWasIgnoredAtTheStart is for a program under nohup(1) that
// handles SIGHUP all the same.
func TestForwardsWhatWasIgnoredAtTheStart(t *testing.T) {
	argv := append([]string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh"}, supervised(child, "spin")...)
	p := begin(t, argv)
	p.expect("ready") // a Go program, which leaves SIGHUP ignored
	p.send(syscall.SIGHUP)
	p.send(syscall.SIGUSR2)
	p.send(syscall.SIGTERM)
	require.Equal(t, 128+int(syscall.SIGTERM), p.end())
}

func TestStopIsNotAnEnd(t *testing.T) {
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
		// A child's mask is that of the thread which forks. This one is
		// thrown away with its goroutine's end, for being locked.
		runtime.LockOSThread()
		var set unix.Sigset_t
		for _, sig := range list {
			set.Val[0] |= 1 << (sig - 1)
		}
		_ = unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
	}
}
