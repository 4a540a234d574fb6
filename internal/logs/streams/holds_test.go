// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	ofOldPod = HoldScope{Pod: "old"}
	ofBuild  = HoldScope{Key: "tekton.dev/taskRun", Value: "build"}
)

func TestAHeldStreamOutlastsItsRetentionAndTheQuota(t *testing.T) {
	const month = 30 * 24 * time.Hour
	for _, scope := range []HoldScope{ofOldPod, ofBuild} {
		m, s, _ := openMemory(t)
		require.NoError(t, s.Hold(t.Context(), "tenant", scope, "jane"))
		require.NoError(t, s.Hold(t.Context(), "tenant", scope, "jane"), "again")
		id := secretStream(t, m, s) // begins after the hold
		want, _ := textOf(t, m, s, id, 0)
		_, err := s.Trim(t.Context(), id, m.now, 0)
		require.NoError(t, err)
		m.now = m.now.Add(2 * month)
		found, err := s.Tidy(t.Context(), id, m.now, month)
		require.NoError(t, err)
		require.False(t, found.Expired)
		require.NoError(t, s.MarkDeleted(t.Context(), id, build), "another replica had looked before the hold")
		text, _ := textOf(t, m, s, id, 0)
		require.Equal(t, want, text)
		_, err = s.Source(t.Context(), id)
		require.NoError(t, err)
		_, err = s.ErasePod(t.Context(), "tenant", "old", all, false)
		require.ErrorIs(t, err, ErrHeld)

		was, err := s.Release(t.Context(), "tenant", scope)
		require.NoError(t, err)
		require.True(t, was)
		was, err = s.Release(t.Context(), "tenant", scope)
		require.NoError(t, err)
		require.False(t, was)
		m.now = m.now.Add(2 * month)
		found, err = s.Tidy(t.Context(), id, m.now, month)
		require.NoError(t, err)
		require.True(t, found.Expired)
	}
}

func TestAStreamThatIsStillWrittenAndHeldLosesNoOldBytes(t *testing.T) {
	m, s, _ := openMemory(t)
	id, err := s.Create(t.Context(), build)
	require.NoError(t, err)
	require.NoError(t, s.Write(t.Context(), id, 0, []byte("old")))
	m.now = m.now.Add(100 * time.Hour)
	require.NoError(t, s.Write(t.Context(), id, 3, []byte("new")))
	require.NoError(t, s.Hold(t.Context(), "tenant", ofOldPod, "jane"))
	_, err = s.Tidy(t.Context(), id, m.now, time.Hour)
	require.NoError(t, err)
	text, _ := textOf(t, m, s, id, 0)
	require.Equal(t, "oldnew", text)
	_, err = s.Release(t.Context(), "tenant", ofOldPod)
	require.NoError(t, err)
	_, err = s.Tidy(t.Context(), id, m.now, time.Hour)
	require.NoError(t, err)
	text, _ = textOf(t, m, s, id, 0)
	require.Equal(t, "---new", text)
}

// Its bytes are still there for tombstoneAge.
func TestAStreamThatIsHeldAfterItsExpiryIsRestored(t *testing.T) {
	m, s, _ := openMemory(t)
	id := secretStream(t, m, s)
	require.NoError(t, s.MarkDeleted(t.Context(), id, build))
	m.now = m.now.Add(time.Hour)
	require.NoError(t, s.Hold(t.Context(), "tenant", ofBuild, "jane"))
	m.now = m.now.Add(tombstoneAge)
	restored, removed, err := s.NewSweep(m.now, false).FinishDeletions(t.Context(), '0', 'f', func(string) time.Duration { return time.Nanosecond })
	require.NoError(t, err)
	require.Equal(t, []int{1, 0}, []int{restored, removed})
	_, err = s.Source(t.Context(), id)
	require.NoError(t, err)
}

func TestAHoldIsOfItsNamespaceAlone(t *testing.T) {
	_, s, _ := openMemory(t)
	require.NoError(t, s.Hold(t.Context(), "other", ofOldPod, "jane"))
	require.NoError(t, s.Hold(t.Context(), "other", ofBuild, "jane"))
	isHeld, err := s.IsHeld(t.Context(), build)
	require.NoError(t, err)
	require.False(t, isHeld)
	other := build
	other.Namespace = "other"
	isHeld, err = s.IsHeld(t.Context(), other)
	require.NoError(t, err)
	require.True(t, isHeld)
}

func TestHoldsAreBoundedAndChecked(t *testing.T) {
	_, s, _ := openMemory(t)
	for i := range MaxHolds {
		require.NoError(t, s.Hold(t.Context(), "tenant", HoldScope{Pod: fmt.Sprintf("pod-%d", i)}, ""))
	}
	require.ErrorIs(t, s.Hold(t.Context(), "tenant", ofOldPod, ""), ErrManyHolds)
	require.NoError(t, s.Hold(t.Context(), "tenant", HoldScope{Pod: "pod-7"}, ""), "it exists")
	require.NoError(t, s.Hold(t.Context(), "other", ofOldPod, ""))
	for _, scope := range []HoldScope{{}, {Pod: "../x"}, {Key: "app", Value: "web"}, {Key: "tekton.dev/taskRun", Value: "a/b"}} {
		require.Error(t, s.Hold(t.Context(), "tenant", scope, ""))
		_, err := s.Release(t.Context(), "tenant", scope)
		require.Error(t, err)
	}
	require.ErrorIs(t, s.Hold(t.Context(), "..", ofOldPod, ""), ErrNoPod)
}
