// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package handoff

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/supervisor/life"
	"github.com/entrypointer/entrypointer/internal/supervisor/processtest"
)

// TestASlowStartIsNotRepeated compares wall-clock times. With a small CPU share, a
// start takes a hundred times its CPU time.
func TestASlowStartIsNotRepeated(t *testing.T) {
	pid, _ := processtest.Sleeper(t, true)
	h := &Early{Process: &life.Process{PID: pid}, began: time.Now().Add(-800 * time.Millisecond), cpuUsed: -1}
	require.Eventually(t, func() bool {
		h.advance(func() bool { return false }, time.Hour)
		return h.stage == stageStopped
	}, 10*time.Second, time.Millisecond)
	require.Less(t, h.cpuUsed, 100*time.Millisecond)
	require.GreaterOrEqual(t, h.startTook, 800*time.Millisecond)
	require.True(t, h.restartIsFaster())
	h.nextPoll = time.Now().Add(500 * time.Millisecond)
	require.False(t, h.restartIsFaster())
}
