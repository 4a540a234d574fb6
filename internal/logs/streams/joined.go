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
	// MaxJoined bounds the bytes of a joined object before compression.
	MaxJoined = 4 << 20
	// maxStored bounds the members of a joined object, in bytes. A reader holds all of them.
	maxStored = 512 << 10
	// maxIndex bounds the uncompressed index: an entry has at most 25 bytes, and a member
	// more than 20.
	maxIndex = 2 * maxStored
)

// An entry describes a member in the index. A joined object may have some 20,000.
type entry struct {
	skip, counts, length int32 // the member's bytes before the winning ones, the winning ones, and all bytes
	size                 int32 // of the member as stored, in bytes
	written              int64 // by the storage's clock, in Unix milliseconds
}

// A joinedObject is an index, which is a gzip member, and then gzip members as they were
// written, one after another. Where two joined objects overlap, both have the same bytes
// (tidy.go).
type joinedObject struct {
	name    Range
	entries []entry
	members []byte

	// The position of the last memberAt.
	entryIndex    int
	entryOffset   int64
	membersBefore int64
}

// A member is a decoded entry.
type member struct {
	counts  Range // the winning bytes
	object  Range // all bytes
	content []byte
	written time.Time
}

// encode returns the content of the object.
func (j *joinedObject) encode() ([]byte, error) {
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

// decodeJoined parses what encode has returned.
func decodeJoined(name Range, object []byte) (*joinedObject, error) {
	rest := bytes.NewReader(object) // an io.ByteReader, so gzip reads no more than the member
	unpacked, err := gzip.NewReader(rest)
	if err != nil {
		return nil, fmt.Errorf("reading the index of a joined object: %w", err)
	}
	unpacked.Multistream(false)
	index, err := io.ReadAll(io.LimitReader(unpacked, maxIndex))
	if err != nil {
		return nil, fmt.Errorf("reading the index of a joined object: %w", err)
	}
	j := &joinedObject{name: name, entryOffset: name.From, members: object[len(object)-rest.Len():]}
	if err := j.readIndex(index); err != nil {
		return nil, fmt.Errorf("reading the index of a joined object: %w", err)
	}
	return j, nil
}

var errIndex = errors.New("it contradicts the name or the length of the object")

func (j *joinedObject) readIndex(index []byte) error {
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

// memberAt returns the member with an offset, which must be in the object. For ascending
// offsets, it doesn't search.
func (j *joinedObject) memberAt(offset int64) member {
	if j.entryIndex == len(j.entries) || offset < j.entryOffset {
		j.entryIndex, j.entryOffset, j.membersBefore = 0, j.name.From, 0
	}
	for offset >= j.entryOffset+int64(j.entries[j.entryIndex].counts) {
		j.entryOffset, j.membersBefore = j.entryOffset+int64(j.entries[j.entryIndex].counts), j.membersBefore+int64(j.entries[j.entryIndex].size)
		j.entryIndex++
	}
	e := j.entries[j.entryIndex]
	first := j.entryOffset - int64(e.skip)
	return member{
		counts: Range{j.entryOffset, j.entryOffset + int64(e.counts)}, object: Range{first, first + int64(e.length)},
		content: j.members[j.membersBefore : j.membersBefore+int64(e.size)], written: time.UnixMilli(e.written),
	}
}

// add appends the bytes of a member that are in a range. The range must begin where the
// object ends.
func (j *joinedObject) add(m member, within Range) {
	counts := Range{max(m.counts.From, within.From), min(m.counts.To, within.To)}
	j.entries = append(j.entries, entry{
		int32(counts.From - m.object.From), int32(counts.Len()), int32(m.object.Len()), int32(len(m.content)), m.written.UnixMilli(), //nolint:gosec // G115: at most MaxWrite
	})
	j.members = append(j.members, m.content...)
}

// readJoined reads a joined object.
func (s *Store) readJoined(ctx context.Context, id string, p piece) (*joinedObject, error) {
	object, err := s.bucket.Read(ctx, directory(id)+p.key())
	if err != nil {
		return nil, err
	}
	return decodeJoined(p.object, object)
}

// supersededObjects returns the joined objects whose bytes are all in one longer object
// that is visible to all, or in one of the same length of which more is masked. So of two
// objects with the same bytes, one always stays.
func supersededObjects(objects []piece, isVisibleToAll func(piece) bool) (list []piece) {
	objects = slices.Clone(objects)
	slices.SortFunc(objects, func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.object.From, b.object.From), cmp.Compare(b.object.To, a.object.To), cmp.Compare(b.masked(), a.masked()), a.written.Compare(b.written))
	})
	var furthest int64 // of the visible objects before
	for _, o := range objects {
		if o.object.To <= furthest {
			list = append(list, o)
		}
		if isVisibleToAll(o) {
			furthest = max(furthest, o.object.To)
		}
	}
	return list
}
