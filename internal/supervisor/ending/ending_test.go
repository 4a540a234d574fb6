// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ending

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/supervisor/life"
	"github.com/entrypointer/entrypointer/internal/supervisor/processtest"
)

func TestAnEndingKillsAProcessThatHasLeftItsGroup(t *testing.T) {
	pid, end := processtest.Sleeper(t, false)
	e := Ending{Process: &life.Process{PID: pid}}
	require.Equal(t, life.Forever, e.Kill())
	require.True(t, e.Decide(TooSlow, time.Nanosecond))
	e.Stop(syscall.SIGTERM)
	require.Equal(t, life.Forever, e.Kill())
	require.Equal(t, syscall.SIGKILL, end().Signal())
}

// TestAnEndingLeavesAnEndedProcessAlone, because its process ID may be reused.
func TestAnEndingLeavesAnEndedProcessAlone(t *testing.T) {
	pid, _ := processtest.Sleeper(t, true)
	e := Ending{Process: &life.Process{PID: pid, Ended: true}, killAt: time.Now()}
	require.False(t, e.Decide(TooSlow, 0))
	e.Stop(syscall.SIGKILL)
	require.Equal(t, life.Forever, e.Kill())
	require.Equal(t, None, e.Verdict)
	require.NoError(t, syscall.Kill(pid, 0))
}

// TestTheFirstVerdictWins, and its grace period.
func TestTheFirstVerdictWins(t *testing.T) {
	pid, _ := processtest.Sleeper(t, true)
	e := Ending{Process: &life.Process{PID: pid}}
	require.True(t, e.Decide(Unneeded, time.Hour))
	require.False(t, e.Decide(TooSlow, 0))
	require.Equal(t, Unneeded, e.Verdict)
	require.Greater(t, e.Kill(), time.Minute)
}

// TestAnEndingSendsOneStopSignal.
func TestAnEndingSendsOneStopSignal(t *testing.T) {
	pid, _ := processtest.Sleeper(t, true) // ignores SIGTERM
	e := Ending{Process: &life.Process{PID: pid}}
	e.Stop(syscall.SIGTERM)
	e.Stop(syscall.SIGKILL)
	require.Equal(t, syscall.SIGTERM, e.Signal)
	require.NoError(t, syscall.Kill(pid, 0))
}

// TestAnEndingReportsAProcessThatItCannotKill uses a process ID that does not exist.
func TestAnEndingReportsAProcessThatItCannotKill(t *testing.T) {
	e := Ending{Process: &life.Process{PID: 1 << 30}}
	require.True(t, e.Decide(TooSlow, 0))
	require.False(t, e.Over())
	e.Kill()
	require.ErrorIs(t, e.KillErr, syscall.ESRCH)
	require.True(t, e.Over())
}
