// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ring

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheReaderSeesBytesAndTheEndOnlyWhenTheyAreReleased(t *testing.T) {
	w, r, _ := open(t)
	w.Hold()
	r.WakeAt(Stdout, 1)
	r.WakeAt(Stderr, 1)
	r.WakeAt(Events, 1)
	r.Sleep()
	read := func(from int64) (string, bool) {
		into := make([]byte, 100)
		n, floor := r.Read(Stdout, from, into)
		require.Equal(t, from, floor)
		written, ended := r.Written(Stdout)
		require.Equal(t, from+int64(n), written)
		return string(into[:n]), ended
	}
	w.Write(Stdout, []byte("one "))
	first := w.Offsets()
	w.Write(Stdout, []byte("two"))
	w.End(Stdout)
	text, ended := read(0)
	require.Empty(t, text)
	require.False(t, ended)
	require.False(t, w.ClaimWake(), "there is nothing to read")

	w.Release(first)
	require.True(t, w.HoldsBytes())
	require.True(t, w.ClaimWake())
	text, ended = read(0)
	require.Equal(t, "one ", text)
	require.False(t, ended)

	w.Release(w.Offsets())
	require.False(t, w.HoldsBytes())
	text, ended = read(4)
	require.Equal(t, "two", text)
	require.True(t, ended)
}

func TestBytesThatAreOverwrittenBeforeTheyAreReleasedAreAGap(t *testing.T) {
	w, r, _ := open(t)
	w.Hold()
	w.Write(Stdout, pattern(0, 10))
	w.Release(w.Offsets())
	w.Write(Stdout, pattern(10, DefaultCapacity+20))
	into := make([]byte, DefaultCapacity)
	n, floor := r.Read(Stdout, 10, into)
	require.Zero(t, n)
	require.EqualValues(t, 10, floor, "nothing is released")
	w.Release(w.Offsets())
	_, floor = r.Read(Stdout, 10, into)
	require.EqualValues(t, 30, floor)
	n, _ = r.Read(Stdout, floor, into)
	require.Equal(t, pattern(30, DefaultCapacity), into[:n])
}
