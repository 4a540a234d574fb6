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

func TestAnEndingKillsAProcessThatHasLeftItsGroup(t *testing.T) {
	pid, end := sleeper(t, false)
	e := ending{process: &process{pid: pid}}
	require.Equal(t, forever, e.kill())
	require.True(t, e.decide(tooSlow, time.Nanosecond))
	e.stop(syscall.SIGTERM)
	require.Equal(t, forever, e.kill())
	require.Equal(t, syscall.SIGKILL, end().Signal())
}

// TestAnEndingLeavesAnEndedProcessAlone, because its process ID may be reused.
func TestAnEndingLeavesAnEndedProcessAlone(t *testing.T) {
	pid, _ := sleeper(t, true)
	e := ending{process: &process{pid: pid, ended: true}, killAt: time.Now()}
	require.False(t, e.decide(tooSlow, 0))
	e.stop(syscall.SIGKILL)
	require.Equal(t, forever, e.kill())
	require.Equal(t, noVerdict, e.verdict)
	require.NoError(t, syscall.Kill(pid, 0))
}

// TestTheFirstVerdictWins, and its grace period.
func TestTheFirstVerdictWins(t *testing.T) {
	pid, _ := sleeper(t, true)
	e := ending{process: &process{pid: pid}}
	require.True(t, e.decide(unneeded, time.Hour))
	require.False(t, e.decide(tooSlow, 0))
	require.Equal(t, unneeded, e.verdict)
	require.Greater(t, e.kill(), time.Minute)
}

// TestAnEndingSendsOneStopSignal.
func TestAnEndingSendsOneStopSignal(t *testing.T) {
	pid, _ := sleeper(t, true) // ignores SIGTERM
	e := ending{process: &process{pid: pid}}
	e.stop(syscall.SIGTERM)
	e.stop(syscall.SIGKILL)
	require.Equal(t, syscall.SIGTERM, e.signal)
	require.NoError(t, syscall.Kill(pid, 0))
}

// TestAnEndingReportsAProcessThatItCannotKill uses a process ID that does not exist.
func TestAnEndingReportsAProcessThatItCannotKill(t *testing.T) {
	e := ending{process: &process{pid: 1 << 30}}
	require.True(t, e.decide(tooSlow, 0))
	require.False(t, e.over())
	e.kill()
	require.ErrorIs(t, e.killErr, syscall.ESRCH)
	require.True(t, e.over())
}
