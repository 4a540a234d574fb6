// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAWriteIsOneCallWhileTheStreamIsKnownToBeOpen(t *testing.T) {
	m, s, id := openMemory(t)
	require.NoError(t, s.Write(t.Context(), id, 0, []byte("a")))
	before := m.calls.Load()
	for at := range int64(10) {
		require.NoError(t, s.Write(t.Context(), id, 1+at, []byte("x")))
	}
	require.Equal(t, before+10, m.calls.Load())
}

func TestBytesBehindAnEndOfAnotherReplicaAreNotReadAndSoonRefused(t *testing.T) {
	directory := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		one, other := replica(t, directory), replica(t, directory)
		id := created(t, one)
		require.NoError(t, other.Write(t.Context(), id, 0, []byte("abc")))
		require.NoError(t, one.End(t.Context(), id, 3))
		require.ErrorIs(t, one.Write(t.Context(), id, 3, []byte("d")), ErrEnded)
		require.NoError(t, other.Write(t.Context(), id, 3, []byte("d")), "this replica doesn't know yet")
		require.NoError(t, other.Drop(t.Context(), id, Range{4, 9}))
		for _, s := range []*Store{one, other} {
			text, complete := readAll(t, s, id, 0)
			require.Equal(t, "abc", text)
			require.True(t, complete)
			state, err := s.State(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, State{Stored: Ranges{{0, 3}}, Total: 3, Complete: true}, state)
		}
		time.Sleep(endTTL)
		require.ErrorIs(t, other.Write(t.Context(), id, 3, []byte("d")), ErrEnded)
		require.ErrorIs(t, other.Drop(t.Context(), id, Range{9, 12}), ErrEnded)
	})
}

func TestAReplicaRefusesWhatIsBehindItsOwnEndAtOnce(t *testing.T) {
	s := replica(t, t.TempDir())
	id := created(t, s)
	require.NoError(t, s.Write(t.Context(), id, 0, []byte("abc")))
	require.NoError(t, s.End(t.Context(), id, 3))
	require.ErrorIs(t, s.Write(t.Context(), id, 3, []byte("d")), ErrEnded)
	require.NoError(t, s.Write(t.Context(), id, 0, []byte("abc")))
}
