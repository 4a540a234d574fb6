// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAStreamOfTooManyPiecesTakesNoMore(t *testing.T) {
	for name, test := range map[string]struct {
		step int64 // between two pieces
		want error
		then bool // whether it takes some when they are joined
	}{
		"single bytes":                {1, ErrTooMany, true},
		"a byte at each second place": {2, ErrScattered, false},
	} {
		m, s, id := openMemory(t)
		s.admissions = newAdmissions(40)
		var at int64
		var err error
		for ; err == nil; at += test.step {
			require.Less(t, at, int64(1000), name)
			err = s.Write(t.Context(), id, at, []byte("x"))
		}
		require.ErrorIs(t, err, test.want, name)
		require.LessOrEqual(t, m.count(directory(id)+"data"), 40, name)

		calls := m.calls.Load()
		require.ErrorIs(t, s.Write(t.Context(), id, at, []byte("x")), test.want, name)
		_, err = s.Append(t.Context(), id, []byte("x"))
		require.ErrorIs(t, err, test.want, name)
		require.Equal(t, calls, m.calls.Load(), "%s: to refuse costs the storage nothing", name)

		require.NoError(t, s.Write(t.Context(), id, 2000, bytes.Repeat([]byte("x"), smallObject)), "%s: a large one", name)
		require.NoError(t, s.Drop(t.Context(), id, Range{at, 2000}), "%s: what is refused is marked", name)
		require.NoError(t, s.End(t.Context(), id, 4*smallObject), name)

		tidy(t, m, s, id)
		s.admissions = newAdmissions(40) // some seconds later
		err = nil
		for i := range int64(11) { // the first ten are taken without a look
			err = errors.Join(err, s.Write(t.Context(), id, 3*smallObject+2*i, []byte("y")))
		}
		require.Equal(t, test.then, err == nil, "%s: %v", name, err)
	}
}

// Large objects that touch are joined later, and joined objects stay.
func TestLargePiecesAndJoinedOnesHaveABoundToo(t *testing.T) {
	large := bytes.Repeat([]byte("x"), smallObject)
	for name, test := range map[string]struct {
		step   int64
		joined int64
		want   error
	}{
		"large pieces":            {smallObject, 0, ErrTooMany},
		"that don't touch":        {smallObject + 1, 0, ErrScattered},
		"behind many joined ones": {smallObject, 40, ErrTooLong},
	} {
		m, s, id := openMemory(t)
		s.admissions = newAdmissions(40)
		for i := range test.joined {
			require.NoError(t, m.Create(t.Context(), directory(id)+"joined/"+rangeName(Range{i, i + 1}), nil))
		}
		var err error
		for at := int64(100); err == nil; at += test.step {
			require.Less(t, at, int64(1000*smallObject), name)
			err = s.Write(t.Context(), id, at, large)
		}
		require.ErrorIs(t, err, test.want, name)
		require.LessOrEqual(t, m.count(directory(id)+"data"), 80, name)
	}
}

func TestMarkersHaveABoundToo(t *testing.T) {
	m, s, id := openMemory(t)
	s.admissions = newAdmissions(40)
	var err error
	for at := int64(0); err == nil; at += 2 {
		require.Less(t, at, int64(1000))
		err = s.Drop(t.Context(), id, Range{at, at + 1})
	}
	require.ErrorIs(t, err, ErrScattered)
	require.LessOrEqual(t, m.count(directory(id)+"drop"), 80)
}
