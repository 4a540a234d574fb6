// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

const (
	// MaxJoined is how many bytes a joined object has at most, before compression.
	MaxJoined = 4 << 20
	// maxStored is how many bytes of members it has. A reader holds as many.
	maxStored = 512 << 10
	// maxIndex bounds what an index unpacks to: an entry has 25 bytes at most, and
	// a member has more than 20.
	maxIndex = 2 * maxStored
)

// An entry is a member of a joined object. There may be some 20,000 in one.
type entry struct {
	skip, counts, length int32 // bytes before those that count, those, and all
	size                 int32 // as it is stored
	written              int64 // by the storage's clock, in ms
}

// A joined object has members as they were written, one after another, each of
// which says what it always said, and before them an index, which is a gzip member
// too. Where it overlaps another one, both have the same bytes (tidy.go).
type joined struct {
	name    Range
	entries []entry
	members []byte

	// Where holding found something last.
	i      int
	at     int64
	before int64
}

// A member is what an entry says.
type member struct {
	counts  Range // those of its bytes that count
	object  Range // all that it has
	content []byte
	written time.Time
}

// encode returns the content of an object.
func (j *joined) encode() ([]byte, error) {
	var index []byte
	for _, e := range j.entries {
		for _, n := range []int64{int64(e.skip), int64(e.counts), int64(e.length), int64(e.size), e.written} {
			index = binary.AppendUvarint(index, uint64(max(0, n)))
		}
	}
	var object bytes.Buffer
	if err := compress(&object, index, nil); err != nil {
		return nil, err
	}
	object.Write(j.members)
	return object.Bytes(), nil
}

// decodeJoined reads what encode has written.
func decodeJoined(name Range, object []byte) (*joined, error) {
	rest := bytes.NewReader(object) // of which gzip reads no more than it needs
	unpacked, err := gzip.NewReader(rest)
	if err != nil {
		return nil, fmt.Errorf("reading the index of a joined object: %w", err)
	}
	unpacked.Multistream(false)
	index, err := io.ReadAll(io.LimitReader(unpacked, maxIndex))
	if err != nil {
		return nil, fmt.Errorf("reading the index of a joined object: %w", err)
	}
	j := &joined{name: name, at: name.From, members: object[len(object)-rest.Len():]}
	if err := j.readIndex(index); err != nil {
		return nil, fmt.Errorf("reading the index of a joined object: %w", err)
	}
	return j, nil
}

var errIndex = errors.New("it doesn't say what the object's name and length say")

func (j *joined) readIndex(index []byte) error {
	at, size := j.name.From, int64(0)
	for len(index) > 0 {
		var fields [5]int64
		for i := range fields {
			n, used := binary.Uvarint(index)
			if used <= 0 || n > MaxOffset {
				return errIndex
			}
			fields[i], index = int64(n), index[used:]
		}
		skip, counts, length := fields[0], fields[1], fields[2]
		if counts == 0 || length > MaxWrite || skip+counts > length || skip > at || fields[3] > maxStored {
			return errIndex
		}
		j.entries = append(j.entries, entry{int32(skip), int32(counts), int32(length), int32(fields[3]), fields[4]}) //nolint:gosec // G115: bounded above
		at, size = at+counts, size+fields[3]
	}
	if at != j.name.To || size != int64(len(j.members)) {
		return errIndex
	}
	return nil
}

// holding is the member that has an offset, which the name has. Who goes on from
// one to the next doesn't search.
func (j *joined) holding(offset int64) member {
	if j.i == len(j.entries) || offset < j.at {
		j.i, j.at, j.before = 0, j.name.From, 0
	}
	for offset >= j.at+int64(j.entries[j.i].counts) {
		j.at, j.before = j.at+int64(j.entries[j.i].counts), j.before+int64(j.entries[j.i].size)
		j.i++
	}
	e := j.entries[j.i]
	first := j.at - int64(e.skip)
	return member{
		counts: Range{j.at, j.at + int64(e.counts)}, object: Range{first, first + int64(e.length)},
		content: j.members[j.before : j.before+int64(e.size)], written: time.UnixMilli(e.written),
	}
}

// add appends what of a member is in a range, which begins where the object ends.
func (j *joined) add(m member, within Range) {
	counts := Range{max(m.counts.From, within.From), min(m.counts.To, within.To)}
	j.entries = append(j.entries, entry{
		int32(counts.From - m.object.From), int32(counts.Len()), int32(m.object.Len()), int32(len(m.content)), m.written.UnixMilli(), //nolint:gosec // G115: at most MaxWrite
	})
	j.members = append(j.members, m.content...)
}

// joined reads a joined object.
func (s *Store) joined(ctx context.Context, id string, name Range) (*joined, error) {
	object, err := s.bucket.Read(ctx, directory(id)+"joined/"+span(name))
	if err != nil {
		return nil, err
	}
	return decodeJoined(name, object)
}

// superseded are the joined objects all of whose bytes are in one other, which is
// longer. So of two that have the same bytes, never both are superseded.
func superseded(objects []piece, reliable func(piece) bool) (list []piece) {
	objects = slices.Clone(objects)
	slices.SortFunc(objects, func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.object.From, b.object.From), cmp.Compare(b.object.To, a.object.To))
	})
	var furthest int64 // of the reliable ones before
	for _, o := range objects {
		if o.object.To <= furthest {
			list = append(list, o)
		}
		if reliable(o) {
			furthest = max(furthest, o.object.To)
		}
	}
	return list
}
