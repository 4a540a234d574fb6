// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package proc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnUnreadableProcCountsAsYes(t *testing.T) {
	const none = "SigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n"
	require.False(t, mayHavePending(none))
	require.True(t, mayHavePending("SigPnd:\t0000000000000000\nShdPnd:\t0000000000004000\n"))
	require.True(t, mayHavePending(""))
	require.True(t, mayHavePending("SigPnd:\t0000000000000000\n"))

	for io, want := range map[string][2]bool{
		"rchar: 10\nwchar: 0\nsyscr: 1\nsyscw: 0\n": {false, true},
		"rchar: 10\nwchar: 1\nsyscr: 1\nsyscw: 1\n": {true, true},
		"": {false, false},
	} {
		has, known := hasWritten(io)
		require.Equal(t, want, [2]bool{has, known}, io)
	}

	require.False(t, AllThreadsAre(Sleeping, 1<<22))
	_, known := CPUTime(1 << 22)
	require.False(t, known)
}
