// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package program

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func started(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(exec.CommandContext(t.Context(), "sh", "-c", script), filepath.Join(t.TempDir(), "output"))
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p
}

// serves returns when a program has said so.
func (p *Process) serves(t *testing.T) (after time.Duration) {
	t.Helper()
	after, err := p.Await(t.Context(), "a word", time.Minute, func(context.Context) error {
		if p.said() != "serving\n" {
			return errors.New("it says nothing")
		}
		return nil
	})
	require.NoError(t, err)
	return after
}

func TestAProgramRunsUntilItIsStopped(t *testing.T) {
	t.Parallel()
	p := started(t, `trap 'exit 0' TERM; sleep 0.1; echo serving; while true; do sleep 0.01; done`)
	require.GreaterOrEqual(t, p.serves(t), 100*time.Millisecond)
	require.True(t, p.Runs())
	used, err := p.Usage()
	require.NoError(t, err)
	require.Positive(t, used.CPU)
	require.GreaterOrEqual(t, used.HighestRSS, used.RSS)
	require.Positive(t, used.RSS)
	require.NoError(t, p.Stop())
	require.False(t, p.Runs())
	_, err = p.Usage()
	require.Error(t, err)
}

func TestAProgramThatFailsAtItsStopSaysWhy(t *testing.T) {
	t.Parallel()
	p := started(t, `trap 'echo no space; exit 3' TERM; echo serving; while true; do sleep 0.01; done`)
	p.serves(t)
	err := p.Stop()
	require.ErrorContains(t, err, "exit status 3")
	require.ErrorContains(t, err, "no space")
}

func TestAProgramThatEndsIsNotAwaited(t *testing.T) {
	t.Parallel()
	p := started(t, "echo no such port; exit 3")
	_, err := p.Await(t.Context(), "an answer", time.Minute, func(context.Context) error { return errors.New("connection refused") })
	for _, part := range []string{"waiting for an answer", "has ended", "exit status 3", "connection refused", "no such port"} {
		require.ErrorContains(t, err, part)
	}
}

func TestAProgramThatNeverServesIsAwaitedForATime(t *testing.T) {
	t.Parallel()
	p := started(t, "exec sleep 1h")
	_, err := p.Await(t.Context(), "an answer", 50*time.Millisecond, func(context.Context) error { return errors.New("connection refused") })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "connection refused")
	p.Kill()
	require.False(t, p.Runs())
}

func TestNoProcessIsOneThatHasEnded(t *testing.T) {
	t.Parallel()
	var none *Process
	require.False(t, none.Runs())
	none.Kill()
}
