// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os/exec"
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

func TestTheSupervisorKnowsWhetherItIsPID1(t *testing.T) {
	places(t, func(t *testing.T, place func(*exec.Cmd)) {
		got := output(t, supervised("sh", "-c", "echo $PPID; exit 6"), place)
		require.Equal(t, 6, got.Code)
		isPID1 := got.Stdout == "1\n"
		require.Equal(t, t.Name() == "TestTheSupervisorKnowsWhetherItIsPID1/PID_1", isPID1)
	})
}

// TestReapsAsSubreaper complements the comparison, which covers PID 1. There is nothing
// to compare with here, because a bare process is no subreaper.
func TestReapsAsSubreaper(t *testing.T) {
	require.Equal(t, "no zombies", orphans(t, subject{"entrypointer", supervised(), asSubreaper}, extent(10000)))
}

// TestTheExitCodeOfAnOrphanIsIgnored: the orphans exit with other codes than the
// command.
func TestTheExitCodeOfAnOrphanIsIgnored(t *testing.T) {
	script := `for i in 1 2 3 4 5 6 7 8 9; do (sh -c "sleep 0.0$i; exit 1$i" &); done; sleep 0.2; exit 77`
	places(t, func(t *testing.T, place func(*exec.Cmd)) {
		require.Equal(t, 77, output(t, supervised("sh", "-c", script), place).Code)
	})
}

func TestTheCommandDiesWithTheSupervisor(t *testing.T) {
	places(t, func(t *testing.T, place func(*exec.Cmd)) {
		p := begin(t, supervised("sh", "-c", "trap '' TERM HUP; echo ready; while :; do sleep 1; done"), place)
		p.expect("ready")
		pid := childOf(t, p.Process.Pid)
		p.send(syscall.SIGKILL)
		p.end()
		require.Eventually(t, func() bool { return !strings.Contains(executable(pid), "sh") }, deadline, time.Millisecond)
	})
}
