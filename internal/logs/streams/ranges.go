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

// End is the offset after the last byte, 0 if there is none.
func (rs Ranges) End() int64 {
	if len(rs) == 0 {
		return 0
	}
	return rs[len(rs)-1].To
}

// touching are the indices of those that overlap r or begin or end where it does.
func (rs Ranges) touching(r Range) (from, to int) {
	from, _ = slices.BinarySearchFunc(rs, r.From, func(have Range, offset int64) int {
		if have.To < offset {
			return -1
		}
		return 1
	})
	to = from
	for to < len(rs) && rs[to].From <= r.To {
		to++
	}
	return from, to
}

// With returns the ranges with r added, in the place of rs.
func (rs Ranges) With(r Range) Ranges {
	if r.Len() <= 0 {
		return rs
	}
	from, to := rs.touching(r)
	if from < to {
		r = Range{min(r.From, rs[from].From), max(r.To, rs[to-1].To)}
	}
	return slices.Replace(rs, from, to, r)
}

// MissingIn returns what of r isn't in the ranges.
func (rs Ranges) MissingIn(r Range) (missing Ranges) {
	from, to := rs.touching(r)
	for _, have := range rs[from:to] {
		if r.From < have.From {
			missing = append(missing, Range{r.From, have.From})
		}
		r.From = max(r.From, have.To)
	}
	if r.Len() > 0 {
		missing = append(missing, r)
	}
	return missing
}
