// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sleeper starts a process that SIGTERM doesn't end.
func sleeper(t *testing.T, group bool) (pid int, end func() syscall.WaitStatus) {
	t.Helper()
	cmd := exec.Command("sh", "-c", `trap "" TERM; echo; exec sleep 60`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: group}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = out.Read(make([]byte, 1))
	require.NoError(t, err)
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd.Process.Pid, func() syscall.WaitStatus {
		_ = cmd.Wait()
		return cmd.ProcessState.Sys().(syscall.WaitStatus)
	}
}

// TestAStoppedLimitKillsNobody stops it as the time is up: what is left of the
// process's group, a daemon that a hook has started, is none of its business.
func TestAStoppedLimitKillsNobody(t *testing.T) {
	pid, _ := sleeper(t, true)
	for range 2000 {
		var l limit
		l.start(pid, time.Nanosecond, time.Second)
		l.stop()
	}
	time.Sleep(1500 * time.Millisecond) // for those that go on after all
	require.NoError(t, syscall.Kill(pid, 0))
	require.NotEqual(t, byte('Z'), readStat(pid).state)
}

func TestALimitKillsWhoeverHasLeftItsGroup(t *testing.T) {
	pid, end := sleeper(t, false)
	var l limit
	l.start(pid, time.Nanosecond, time.Nanosecond)
	require.Equal(t, syscall.SIGKILL, end().Signal())
	require.True(t, l.stop())
}
