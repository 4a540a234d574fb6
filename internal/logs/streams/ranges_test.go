// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddingARangeMergesTheRangesThatItTouches(t *testing.T) {
	for name, test := range map[string]struct {
		have Ranges
		add  Range
		want Ranges
	}{
		"the first":       {nil, Range{3, 5}, Ranges{{3, 5}}},
		"an empty one":    {Ranges{{3, 5}}, Range{7, 7}, Ranges{{3, 5}}},
		"before":          {Ranges{{3, 5}}, Range{0, 2}, Ranges{{0, 2}, {3, 5}}},
		"just before":     {Ranges{{3, 5}}, Range{0, 3}, Ranges{{0, 5}}},
		"after":           {Ranges{{3, 5}}, Range{6, 7}, Ranges{{3, 5}, {6, 7}}},
		"just after":      {Ranges{{3, 5}}, Range{5, 7}, Ranges{{3, 7}}},
		"within":          {Ranges{{3, 9}}, Range{5, 7}, Ranges{{3, 9}}},
		"around all":      {Ranges{{3, 5}, {7, 9}}, Range{0, 20}, Ranges{{0, 20}}},
		"in a gap":        {Ranges{{0, 2}, {8, 9}}, Range{4, 5}, Ranges{{0, 2}, {4, 5}, {8, 9}}},
		"which fills one": {Ranges{{0, 2}, {8, 9}}, Range{2, 8}, Ranges{{0, 9}}},
	} {
		require.Equal(t, test.want, test.have.With(test.add), name)
	}
}

// The oracle has a bool for each byte.
func FuzzRanges(f *testing.F) {
	f.Add([]byte{3, 5, 0, 2, 5, 7})
	f.Fuzz(func(t *testing.T, ends []byte) {
		var ranges Ranges
		var have [256]bool
		for ; len(ends) >= 2; ends = ends[2:] {
			r := Range{int64(ends[0]), int64(ends[1])}
			ranges = ranges.With(r)
			for i := r.From; i < r.To; i++ {
				have[i] = true
			}
		}
		for _, r := range ranges {
			for i := r.From; i < r.To; i++ {
				require.True(t, have[i], "byte %d", i)
				have[i] = false
			}
		}
		require.NotContains(t, have[:], true)
		for i := 1; i < len(ranges); i++ {
			require.Greater(t, ranges[i].From, ranges[i-1].To)
		}
	})
}
