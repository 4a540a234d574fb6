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

// sleeper starts a process that ignores SIGTERM.
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

func TestALimitKillsAProcessThatHasLeftItsGroup(t *testing.T) {
	pid, end := sleeper(t, false)
	l := newLimit(&process{pid: pid}, time.Nanosecond, time.Nanosecond)
	require.Equal(t, time.Nanosecond, l.act())
	require.Equal(t, forever, l.act())
	require.Equal(t, syscall.SIGKILL, end().Signal())
	require.True(t, l.reached)
}

// TestALimitIgnoresAnEndedProcess, because its process ID may be reused.
func TestALimitIgnoresAnEndedProcess(t *testing.T) {
	pid, _ := sleeper(t, true)
	l := newLimit(&process{pid: pid, ended: true}, time.Nanosecond, time.Nanosecond)
	require.Equal(t, forever, l.act())
	require.False(t, l.reached)
	require.NoError(t, syscall.Kill(pid, 0))
}

// TestALimitReportsAProcessThatItCannotKill uses a process ID that does not exist.
func TestALimitReportsAProcessThatItCannotKill(t *testing.T) {
	l := newLimit(&process{pid: 1 << 30}, time.Nanosecond, time.Nanosecond)
	l.act()
	l.act()
	require.ErrorIs(t, l.killErr, syscall.ESRCH)
}
