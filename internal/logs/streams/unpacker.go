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

// An unpacker decompresses many members, without new memory for each.
type unpacker struct {
	gzip   gzip.Reader
	packed bytes.Reader
	data   []byte
	beyond [1]byte
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
		data, extra, err := u.next(m)
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

// next unpacks a member behind those before.
func (u *unpacker) next(m member) (data, extra []byte, err error) {
	u.packed.Reset(m.content)
	if err := u.gzip.Reset(&u.packed); err != nil {
		return nil, nil, err
	}
	had := len(u.data)
	u.data = u.data[:had+int(m.object.Len())]
	data = u.data[had:]
	if _, err := io.ReadFull(&u.gzip, data); err != nil {
		return nil, nil, err
	}
	// gzip checks the checksum only at the end.
	if n, err := u.gzip.Read(u.beyond[:]); n != 0 || !errors.Is(err, io.EOF) {
		return nil, nil, errors.Join(errTooLong, err)
	}
	return data, u.gzip.Extra, nil
}
