// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asPID1 starts a command in a PID namespace of its own.
func asPID1(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
}

// asSubreaper starts a command as any other.
func asSubreaper(*exec.Cmd) {}

// places runs a test as PID 1 and as any other process.
func places(t *testing.T, test func(t *testing.T, place func(*exec.Cmd))) {
	t.Run("subreaper", func(t *testing.T) { test(t, asSubreaper) })
	t.Run("PID 1", func(t *testing.T) {
		needRoot(t, "a PID namespace")
		test(t, asPID1)
	})
}

func TestKnowsItsPlace(t *testing.T) {
	places(t, func(t *testing.T, place func(*exec.Cmd)) {
		got := output(t, supervised("sh", "-c", "echo $PPID; exit 6"), place)
		require.Equal(t, 6, got.Code)
		isPID1 := got.Stdout == "1\n"
		require.Equal(t, t.Name() == "TestKnowsItsPlace/PID_1", isPID1)
	})
}

func TestReapsOrphansByTheThousand(t *testing.T) {
	const n = 3000
	script := "i=0; while [ $i -lt " + strconv.Itoa(n) + " ]; do (: &); i=$((i+1)); done; echo made; read x; exit 9"
	places(t, func(t *testing.T, place func(*exec.Cmd)) {
		input, release, err := os.Pipe()
		require.NoError(t, err)
		defer input.Close()
		p := begin(t, supervised("sh", "-c", script), place, func(cmd *exec.Cmd) { cmd.Stdin = input })
		p.expect("made")
		require.Eventually(t, func() bool { return len(children(p.Process.Pid)) == 1 }, deadline, time.Millisecond)
		require.NoError(t, release.Close())
		require.Equal(t, 9, p.end())
	})
}

// TestOrphanIsNotTheChild ends orphans with codes of their own.
func TestOrphanIsNotTheChild(t *testing.T) {
	script := `for i in 1 2 3 4 5 6 7 8 9; do (sh -c "sleep 0.0$i; exit 1$i" &); done; sleep 0.2; exit 77`
	places(t, func(t *testing.T, place func(*exec.Cmd)) {
		require.Equal(t, 77, output(t, supervised("sh", "-c", script), place).Code)
	})
}

// TestEndsThoughStdoutIsHeldOpen has a grandchild that outlives the command,
// with its stdout.
func TestEndsThoughStdoutIsHeldOpen(t *testing.T) {
	places(t, func(t *testing.T, place func(*exec.Cmd)) {
		p := begin(t, supervised("sh", "-c", "sleep 3 & echo out; exit 8"), place)
		p.expect("out")
		start := time.Now()
		require.Equal(t, 8, p.end())
		require.Less(t, time.Since(start), 2*time.Second, "waited for the grandchild")
	})
}

func TestDaemonKeepsNothingAlive(t *testing.T) {
	places(t, func(t *testing.T, place func(*exec.Cmd)) {
		p := begin(t, supervised("sh", "-c", "(setsid sleep 3 >/dev/null 2>&1 </dev/null &); sleep 0.1; exit 8"), place)
		start := time.Now()
		require.Equal(t, 8, p.end())
		require.Less(t, time.Since(start), 2*time.Second, "waited for the daemon")
	})
}

func TestTakesTheChildAlong(t *testing.T) {
	places(t, func(t *testing.T, place func(*exec.Cmd)) {
		p := begin(t, supervised("sh", "-c", "trap '' TERM HUP; echo ready; while :; do sleep 1; done"), place)
		p.expect("ready")
		pid := childOf(t, p.Process.Pid)
		p.send(syscall.SIGKILL)
		p.end()
		require.Eventually(t, func() bool { return !strings.Contains(executable(pid), "sh") }, deadline, time.Millisecond)
	})
}

func TestForwardsAsPID1(t *testing.T) {
	needRoot(t, "a PID namespace")
	list := forwardable()
	p := begin(t, supervised(echo(list...)...), asPID1, listening(t))
	p.expect("ready")
	for _, sig := range list {
		p.send(sig)
		p.expect(strconv.Itoa(int(sig)))
	}
}
