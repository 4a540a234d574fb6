// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package times says when the bytes of a stream came. They travel, and are stored,
// in the header of the gzip member that has the bytes (RFC 1952, 2.3.1.1): whoever
// knows nothing of them reads the same bytes, and where no member is, no times are.
//
// The field's identifier is "ep". It has varints (encoding/binary): the time of the
// first byte, and then, for each mark after that, by how many bytes and by how many
// milliseconds it comes later than the one before it. So a member says the same
// wherever in a stream it is.
//
// What runs in pods may import this package, so it imports nothing but the standard
// library.
package times

import (
	"encoding/binary"
	"sort"
)

// A Mark says when the bytes from an offset on came, up to the next mark's.
type Mark struct {
	At   int64 // an offset in bytes
	Time int64 // Unix time in milliseconds
}

const (
	// Most is how many marks a member has: of as many, none is too long for the field.
	Most = 4096
	// MaxExtra is how long a header's extra field can be, in bytes.
	MaxExtra = 1<<16 - 1
	// latest is the last time that RFC 3339 can write, at the end of the year 9999.
	latest = 253402300799999
)

// The field begins with its identifier and its length.
const (
	id1, id2   = 'e', 'p'
	headLength = 4
)

// Encode returns the extra field of a member with the bytes from an offset on: nil
// without marks. The marks are ascending in both. Those that don't fit are left out.
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

// Decode returns the marks in the extra field of a member with the bytes from an
// offset up to another, the first mark at the first byte. It returns nil if there are
// none, or if one of them can't be: a field is what some client has sent.
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

// find returns what our field in an extra field has, nil if it isn't there.
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

// Cut returns the marks of the bytes from an offset up to another, the first mark at
// the first byte. It changes none.
func Cut(marks []Mark, from, to int64) []Mark {
	// The last mark that isn't behind the first byte says when that came.
	first := max(sort.Search(len(marks), func(i int) bool { return marks[i].At > from })-1, 0)
	end := sort.Search(len(marks), func(i int) bool { return marks[i].At >= to })
	if first >= end || from >= to {
		return nil
	}
	cut := append([]Mark(nil), marks[first:end]...)
	cut[0].At = from
	return cut
}
