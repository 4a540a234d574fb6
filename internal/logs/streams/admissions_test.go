// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAStreamOfTooManyPiecesTakesNoMore(t *testing.T) {
	for name, test := range map[string]struct {
		length, step int // of a piece, and between the beginnings of two
		want         error
		then         bool // whether it takes some when they are joined
	}{
		"single bytes":                {1, 1, ErrTooMany, true},
		"large ones":                  {64 << 10, 64 << 10, ErrTooMany, true},
		"a byte at each second place": {1, 2, ErrTooLong, false},
		"large ones with gaps":        {64 << 10, 64<<10 + 1, ErrTooLong, false},
	} {
		m, s, id := openMemory(t)
		s.admissions = newAdmissions(80)
		piece := bytes.Repeat([]byte("x"), test.length)
		at := int64(0)
		write := func(n int) (err error) {
			for range n {
				if err = s.Write(t.Context(), id, at, piece); err != nil {
					return err
				}
				at += int64(test.step)
			}
			return nil
		}
		require.ErrorIs(t, write(1000), test.want, name)
		require.LessOrEqual(t, m.count(directory(id)+"data"), 80, name)

		calls := m.calls.Load()
		require.ErrorIs(t, write(1), test.want, name)
		_, err := s.Append(t.Context(), id, piece)
		require.ErrorIs(t, err, test.want, name)
		require.Equal(t, calls, m.calls.Load(), "%s: to refuse costs the storage nothing", name)

		require.NoError(t, s.Drop(t.Context(), id, Range{at, at + 1}), "%s: what is refused is marked", name)
		at++

		tidy(t, m, s, id)
		s.admissions = newAdmissions(80) // some seconds later
		// The first ten are taken without a look.
		require.Equal(t, test.then, write(11) == nil, name)
		require.NoError(t, s.End(t.Context(), id, at), name)
	}
}

func TestAStreamOfTooManyJoinedObjectsTakesOnlyMarkers(t *testing.T) {
	m, s, id := openMemory(t)
	s.admissions = newAdmissions(80)
	for i := range int64(40) {
		require.NoError(t, m.Create(t.Context(), directory(id)+"joined/"+rangeName(Range{i, i + 1}), nil))
	}
	var err error
	for at := int64(100); err == nil; at++ {
		require.Less(t, at, int64(1000))
		err = s.Write(t.Context(), id, at, []byte("x"))
	}
	require.ErrorIs(t, err, ErrTooLong)
	require.NoError(t, s.Drop(t.Context(), id, Range{200, 300}))
}

func TestMarkersHaveABoundToo(t *testing.T) {
	m, s, id := openMemory(t)
	s.admissions = newAdmissions(80)
	var err error
	for at := int64(0); err == nil; at += 2 {
		require.Less(t, at, int64(1000))
		err = s.Drop(t.Context(), id, Range{at, at + 1})
	}
	require.ErrorIs(t, err, ErrTooLong)
	require.LessOrEqual(t, m.count(directory(id)+"drop"), 120)
}
