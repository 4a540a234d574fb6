// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
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

// TestForwardsTenThousandSignals checks that none of a burst is lost: real-time
// signals are queued by number, not merged.
func TestForwardsTenThousandSignals(t *testing.T) {
	if *tags == "portable" {
		t.Skip("package os/signal merges them")
	}
	const n = 10_000
	p := begin(t, supervised(child, "count", strconv.Itoa(n)))
	p.expect("ready")
	for i := range n {
		p.send(syscall.Signal(35 + i%30))
	}
	p.expect(strconv.Itoa(n))
	require.Zero(t, p.end())
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
// searches a PATH of thousands of directories.
func TestKeepsSignalsUntilTheChildExists(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGQUIT, syscall.SIGSEGV, 40} {
		path := strings.Repeat("/no:", 30_000) + "/usr/bin:/bin"
		p := begin(t, supervised("sleep", "60"), func(cmd *exec.Cmd) { cmd.Env = []string{"PATH=" + path} })
		waitUntilCatching(t, p)
		p.send(sig)
		require.Empty(t, children(p.Process.Pid), "the child was there too early for this test")
		require.Equal(t, 128+int(sig), p.end())
	}
}

// waitUntilCatching waits until the entrypoint has its handlers. That for signal
// 34 is one that the Go runtime has not set before.
func waitUntilCatching(t *testing.T, p *process) {
	sig := 34
	if *tags == "portable" {
		sig = int(syscall.SIGTTOU)
	}
	for start := time.Now(); ; {
		require.Less(t, time.Since(start), deadline)
		mask, err := strconv.ParseUint(statusField(t, p.Process.Pid, "SigCgt"), 16, 64)
		require.NoError(t, err)
		if mask&(1<<(sig-1)) != 0 && strings.HasSuffix(executable(p.Process.Pid), "/entrypoint") {
			return
		}
	}
}

func TestForwardsWhatWasBlockedAtTheStart(t *testing.T) {
	p := begin(t, supervised(child, "count", "2"), blocked(38, 39))
	p.expect("ready")
	p.send(38)
	p.send(39)
	p.expect("2")
	require.Zero(t, p.end())
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

func TestExitsAsTheChildWhateverKilledIt(t *testing.T) {
	for sig := 1; sig <= 64; sig++ {
		switch syscall.Signal(sig) {
		case syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU:
			continue // they stop, see TestStopIsNotAnEnd
		}
		argv := []string{"sh", "-c", fmt.Sprintf("kill -%d $$; exit 5", sig)}
		bare, got := output(t, argv), output(t, supervised(argv...))
		require.Equal(t, bare.Code, got.Code, "signal %d, bare: %s", sig, bare.Status)
		require.Empty(t, got.Stderr)
	}
}

func TestExitsAsTheChildWithEveryCode(t *testing.T) {
	for n := range 256 {
		got := output(t, supervised("sh", "-c", "exit "+strconv.Itoa(n)))
		require.Equal(t, result{Status: fmt.Sprint("exit status ", n), Code: n}, got)
	}
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
