// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import "slices"

// A Range is a range of bytes, from an offset up to another, exclusive.
type Range struct{ From, To int64 }

// Len returns the length in bytes.
func (r Range) Len() int64 { return r.To - r.From }

// Ranges are sorted, not empty, and separated by gaps.
type Ranges []Range

// Len returns the total length in bytes.
func (rs Ranges) Len() (sum int64) {
	for _, r := range rs {
		sum += r.Len()
	}
	return sum
}

// With returns the ranges with r added. It may reuse the memory of rs.
func (rs Ranges) With(r Range) Ranges {
	if r.Len() <= 0 {
		return rs
	}
	// The ranges that overlap or touch r.
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

// contain reports whether all of r is in the ranges.
func (rs Ranges) contain(r Range) bool {
	in := rs.find(r.From)
	return in.From <= r.From && r.To <= in.To
}

// find returns the range with an offset, or an empty range.
func (rs Ranges) find(offset int64) Range {
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
