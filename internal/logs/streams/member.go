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

// compressors take about a MiB each, so no more run than there are processors.
var (
	compressors = sync.Pool{New: func() any {
		w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // a valid level, so no error
		return w
	}}
	compressing = make(chan struct{}, runtime.GOMAXPROCS(0))
)

// compress appends a gzip member, with an extra field in its header unless that is nil.
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

// maxOverhead bounds how much longer a member may be than its header and its uncompressed
// bytes: gzip's trailer, and the overhead of deflate for incompressible bytes. Longer
// members, for example with many empty blocks, are compressed again.
const maxOverhead = 64

// isCanonical reports whether compress could have made a member with these bytes: its
// header is the same, and it isn't too long. So the member has no name or comment, which
// nobody bounds or masks, and no times but those that were decoded.
func isCanonical(member, data, extra []byte) bool {
	header := header(extra)
	return bytes.HasPrefix(member, header) && len(member) <= len(header)+len(data)+maxOverhead
}

// header returns the header of a member from compress (RFC 1952, 2.3).
func header(extra []byte) []byte {
	const hasExtra, fastest, unknownSystem = 4, 4, 255
	header := []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, fastest, unknownSystem}
	if extra == nil {
		return header
	}
	header[3] = hasExtra
	return append(binary.LittleEndian.AppendUint16(header, uint16(len(extra))), extra...) //nolint:gosec // G115: at most times.MaxExtra
}
