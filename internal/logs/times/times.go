// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package times encodes when the bytes of a stream were printed. The times are sent and
// stored in the header of the gzip member that has the bytes (RFC 1952, 2.3.1.1), so a
// program that doesn't know them reads the same bytes. Bytes without a member have no
// times.
//
// The identifier of the field is "ep". Its content is varints (encoding/binary): the time
// of the first byte; then, for each further mark, its distance from the former mark in
// bytes and in milliseconds. So the field doesn't depend on where in a stream the member
// is.
//
// Programs in pods import this package, so it imports only the standard library.
package times

import (
	"encoding/binary"
	"sort"
)

// A Mark says when the bytes from an offset on, up to the next mark, were printed.
type Mark struct {
	At   int64 // offset in bytes
	Time int64 // Unix time in milliseconds
}

const (
	// Most is how many marks a member can have. So many always fit into the field.
	Most = 4096
	// MaxExtra is the greatest length of the extra field of a gzip header, in bytes.
	MaxExtra = 1<<16 - 1
	// latest is the last time of RFC 3339, the end of the year 9999.
	latest = 253402300799999
)

// A subfield begins with its identifier and its length.
const (
	id1, id2   = 'e', 'p'
	headLength = 4
)

// Encode returns the extra field for a member whose bytes begin at an offset, nil without
// marks. The marks must be in ascending order. Encode leaves out those beyond Most.
func Encode(from int64, marks []Mark) []byte {
	if len(marks) == 0 {
		return nil
	}
	last := Mark{from, min(max(marks[0].Time, 0), latest)}
	field := binary.AppendUvarint([]byte{id1, id2, 0, 0}, uint64(last.Time)) //nolint:gosec // G115: it isn't negative
	for _, m := range marks[1:min(len(marks), Most)] {
		m.Time = min(max(m.Time, last.Time), latest)
		if m.At <= last.At {
			continue
		}
		field = binary.AppendUvarint(field, uint64(m.At-last.At))     //nolint:gosec // G115: it comes later
		field = binary.AppendUvarint(field, uint64(m.Time-last.Time)) //nolint:gosec // G115: it comes later
		last = m
	}
	binary.LittleEndian.PutUint16(field[2:], uint16(len(field)-headLength)) //nolint:gosec // G115: at most MaxExtra
	return field
}

// Decode returns the marks in the extra field of a member with a range of bytes. The
// first mark is at the first byte. Decode returns nil without marks, and for an invalid
// field: any client may have sent it.
func Decode(extra []byte, from, to int64) []Mark {
	field := find(extra)
	first, n := binary.Uvarint(field)
	if n <= 0 || first > latest || from >= to {
		return nil
	}
	marks := []Mark{{from, int64(first)}}
	for field = field[n:]; len(field) > 0; {
		bytes, n := binary.Uvarint(field)
		if n <= 0 {
			return nil
		}
		later, more := binary.Uvarint(field[n:])
		last := marks[len(marks)-1]
		if more <= 0 || len(marks) == Most || bytes == 0 || bytes >= uint64(to-last.At) || later > uint64(latest-last.Time) { //nolint:gosec // G115: neither is negative
			return nil
		}
		marks = append(marks, Mark{last.At + int64(bytes), last.Time + int64(later)}) //nolint:gosec // G115: checked above
		field = field[n+more:]
	}
	return marks
}

// find returns the content of our subfield, nil if there is none.
func find(extra []byte) []byte {
	for len(extra) >= headLength {
		length := int(binary.LittleEndian.Uint16(extra[2:]))
		if length > len(extra)-headLength {
			return nil
		}
		if extra[0] == id1 && extra[1] == id2 {
			return extra[headLength : headLength+length]
		}
		extra = extra[headLength+length:]
	}
	return nil
}

// Cut returns the marks for a range of bytes, the first one at the first byte. It doesn't
// modify marks.
func Cut(marks []Mark, from, to int64) []Mark {
	// The last mark at or before the first byte has its time.
	first := max(sort.Search(len(marks), func(i int) bool { return marks[i].At > from })-1, 0)
	end := sort.Search(len(marks), func(i int) bool { return marks[i].At >= to })
	if first >= end || from >= to {
		return nil
	}
	cut := append([]Mark(nil), marks[first:end]...)
	cut[0].At = from
	return cut
}
