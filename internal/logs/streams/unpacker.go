// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/entrypointer/entrypointer/internal/logs/times"
)

// batchSize bounds the bytes that an unpacker has at a time: those of two writes.
const batchSize = 2 * MaxWrite

// An inflater decompresses one gzip member after another.
type inflater struct {
	gzip   gzip.Reader
	packed bytes.Reader
	beyond [1]byte
}

// errTooLong says that an object contradicts its name.
var errTooLong = errors.New("the object has more bytes than its name says")

// inflate decompresses a member to data, which has the length that the name of its object
// says. It returns the extra field of the header, which is valid until the next call.
func (i *inflater) inflate(data, member []byte) (extra []byte, err error) {
	i.packed.Reset(member)
	if err := i.gzip.Reset(&i.packed); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(&i.gzip, data); err != nil {
		return nil, err
	}
	// gzip checks the checksum only at the end.
	if n, err := i.gzip.Read(i.beyond[:]); n != 0 || !errors.Is(err, io.EOF) {
		return nil, errors.Join(errTooLong, err)
	}
	return i.gzip.Extra, nil
}

// An unpacker decompresses many members, without new memory for each.
type unpacker struct {
	inflater
	data []byte
}

var unpackers = sync.Pool{New: func() any { return &unpacker{data: make([]byte, 0, batchSize)} }}

// newSearchSlots returns slots for the searches of a store: their work keeps no more
// processors busy than there are.
func newSearchSlots() chan struct{} { return make(chan struct{}, runtime.GOMAXPROCS(0)) }

// unpack returns the bytes of members that are in a range, of batchSize in total. They are
// valid until the next call.
func (u *unpacker) unpack(members []member, within Range) (parts []Part, err error) {
	u.data = u.data[:0]
	for _, m := range members {
		counts := Range{max(m.counts.From, within.From), min(m.counts.To, within.To)}
		had := len(u.data)
		u.data = u.data[:had+int(m.object.Len())]
		data := u.data[had:]
		extra, err := u.inflate(data, m.content)
		if err != nil {
			return parts, fmt.Errorf("unpacking bytes %d to %d: %w", counts.From, counts.To-1, err)
		}
		marks := times.Decode(extra, m.object.From, m.object.To)
		if marks == nil {
			marks = []times.Mark{{At: m.object.From, Time: m.written.UnixMilli()}}
		}
		parts = append(parts, Part{
			Range: counts, Data: data[counts.From-m.object.From : counts.To-m.object.From], Times: times.Cut(marks, counts.From, counts.To),
		})
	}
	return parts, nil
}
