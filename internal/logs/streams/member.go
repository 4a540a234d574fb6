// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"runtime"
	"sync"
)

// compressors are some megabyte each. More of them than processors are of no use.
var (
	compressors = sync.Pool{New: func() any {
		w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // a level that there is
		return w
	}}
	compressing = make(chan struct{}, runtime.GOMAXPROCS(0))
)

// compress appends a gzip member, with an extra field in its header if there is one.
func compress(to *bytes.Buffer, data, extra []byte) error {
	compressing <- struct{}{}
	defer func() { <-compressing }()
	w := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	w.Reset(to)
	w.Extra = extra
	if _, err := w.Write(data); err != nil {
		return err
	}
	return w.Close()
}

// atMost is how much longer a member may be than its header and what it has, in bytes:
// gzip's trailer, and what deflate adds to bytes that it can't compress. What is longer
// than that says nothing for long, such as by empty blocks, and is packed anew.
const atMost = 64

// likeOurs says whether a member that unpacks to the data could be one that compress has
// made: its header is the one that it would have, and it isn't longer than it may be. So
// the member has no name or comment, which nobody bounds or masks, nor any times but
// those that were understood.
func likeOurs(member, data, extra []byte) bool {
	header := header(extra)
	return bytes.HasPrefix(member, header) && len(member) <= len(header)+len(data)+atMost
}

// header is that of a member which compress makes (RFC 1952, 2.3).
func header(extra []byte) []byte {
	const hasExtra, fastest, unknownSystem = 4, 4, 255
	header := []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, fastest, unknownSystem}
	if extra == nil {
		return header
	}
	header[3] = hasExtra
	return append(binary.LittleEndian.AppendUint16(header, uint16(len(extra))), extra...) //nolint:gosec // G115: at most times.MaxExtra
}
