// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import "slices"

// A Range is of bytes of a stream, from an offset up to another, exclusive.
type Range struct{ From, To int64 }

// Len is in bytes.
func (r Range) Len() int64 { return r.To - r.From }

// Ranges are in order; none is empty, and between two of them there are bytes
// that are in neither.
type Ranges []Range

// Len is in bytes.
func (rs Ranges) Len() (sum int64) {
	for _, r := range rs {
		sum += r.Len()
	}
	return sum
}

// With returns the ranges with r added, in the place of rs.
func (rs Ranges) With(r Range) Ranges {
	if r.Len() <= 0 {
		return rs
	}
	// Those that overlap it or begin or end where it does.
	from, _ := slices.BinarySearchFunc(rs, r.From, func(have Range, offset int64) int {
		if have.To < offset {
			return -1
		}
		return 1
	})
	to := from
	for to < len(rs) && rs[to].From <= r.To {
		to++
	}
	if from < to {
		r = Range{min(r.From, rs[from].From), max(r.To, rs[to-1].To)}
	}
	return slices.Replace(rs, from, to, r)
}

// have says whether all of r is in the ranges.
func (rs Ranges) have(r Range) bool {
	in := rs.holding(r.From)
	return in.From <= r.From && r.To <= in.To
}

// holding is the range that has an offset, or an empty one.
func (rs Ranges) holding(offset int64) Range {
	i, found := slices.BinarySearchFunc(rs, offset, func(have Range, offset int64) int {
		switch {
		case have.To <= offset:
			return -1
		case have.From > offset:
			return 1
		default:
			return 0
		}
	})
	if !found {
		return Range{}
	}
	return rs[i]
}
