// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package exitcodes

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	set, ok := Parse("3, 10-12,255")
	require.True(t, ok)
	require.Equal(t, Set{{3, 3}, {10, 12}, {255, 255}}, set)
	for code, want := range map[int]bool{0: false, 3: true, 4: false, 9: false, 10: true, 12: true, 13: false, 255: true} {
		require.Equal(t, want, set.Contains(code), code)
	}
	require.False(t, Set(nil).Contains(0))
	for _, wrong := range []string{"", ",", "0", "256", "-1", "3-", "-", "12-10", "0-3", "x", "3 4", "+3", "1-2-3"} {
		_, ok := Parse(wrong)
		require.False(t, ok, wrong)
	}
}

func TestAllCodes(t *testing.T) {
	var chosen [256]bool
	require.Empty(t, Of(&chosen).String())
	chosen[0], chosen[3], chosen[4], chosen[255] = true, true, true, true
	require.Equal(t, "0,3-4,255", Of(&chosen).String())
	set, ok := ParseAll("0,3-4,255")
	require.True(t, ok)
	require.Equal(t, Of(&chosen), set)
	for code := range chosen {
		require.Equal(t, chosen[code], set.Contains(code), code)
		chosen[code] = true
	}
	require.Equal(t, "0-255", Of(&chosen).String())
	for _, wrong := range []string{"", "256", "-1", "0-", "x"} {
		_, ok := ParseAll(wrong)
		require.False(t, ok, wrong)
	}
}
