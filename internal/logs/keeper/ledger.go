// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// A ledger has what the last sweep has found of each stream of a partition, sorted by ID. It
// is a gzip member, whose checksum is verified, of
//
//	the length of the head, and the head as JSON
//	for each stream: 1, the ID, the number of its namespace, and a record
//	0, and the number of streams
//
// Numbers are varints. A namespace that comes first is followed by its name. A ledger never
// decides what is deleted: it says where to look.

// ledgerVersion is that of the format.
const ledgerVersion = 1

const (
	// maxLedgerHead bounds the head, in bytes.
	maxLedgerHead = 4 << 20
	// maxNamespaces bounds the namespaces of a ledger.
	maxNamespaces = 1 << 20
	// maxNamespaceName is the length of a name, as Kubernetes bounds it.
	maxNamespaceName = 63
)

// errLedger says that a ledger can't be used. A listing of all streams makes another one.
var errLedger = errors.New("the ledger is damaged")

// A ledgerHead is what a ledger says of the whole partition.
type ledgerHead struct {
	Version int `json:"version"`
	// Listed is when all streams were listed, and Saved when the ledger was written, both by the
	// storage's clock.
	Listed time.Time `json:"listed"`
	Saved  time.Time `json:"saved"`
	// Read has the number of the last page of each replica that it contains.
	Read map[string]int64 `json:"read"`
}

// A streamID is the ID of a stream.
type streamID [16]byte

// parseID parses an ID in the form that the service makes.
func parseID(id string) (parsed streamID, ok bool) {
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != len(parsed) {
		return parsed, false
	}
	copy(parsed[:], raw)
	return parsed, parsed.String() == id
}

func (id streamID) String() string { return hex.EncodeToString(id[:]) }

func (id streamID) partition() int { return int(id[0] >> 4) }

func (id streamID) compare(other streamID) int { return bytes.Compare(id[:], other[:]) }

// A record is what a sweep has found of a stream, and what was written since.
type record struct {
	namespace string
	bytes     int64     // of its objects
	content   int64     // the part of bytes that trimming can free
	copies    int64     // the part of bytes that joining will free
	index     int64     // bytes of its entries in the index
	written   int64     // how many objects were written since the last inspection
	last, due time.Time // the times of the last write, and of the next inspection, in seconds
	held      bool      // whether it is kept beyond its retention
}

// A ledgerWriter encodes a ledger.
type ledgerWriter struct {
	out        bytes.Buffer
	zip        *gzip.Writer
	buffer     []byte
	namespaces map[string]uint64
	count      uint64
}

// compressors are kept because each takes a MiB.
var compressors = sync.Pool{New: func() any {
	zip, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // a valid level
	return zip
}}

func newLedgerWriter() *ledgerWriter {
	w := &ledgerWriter{namespaces: map[string]uint64{}, zip: compressors.Get().(*gzip.Writer)}
	w.zip.Reset(&w.out)
	return w
}

// begin writes the head.
func (w *ledgerWriter) begin(head ledgerHead) error {
	head.Version = ledgerVersion
	encoded, err := json.Marshal(head)
	if err != nil {
		return err
	}
	w.buffer = append(binary.AppendUvarint(w.buffer[:0], uint64(len(encoded))), encoded...)
	_, err = w.zip.Write(w.buffer)
	return err
}

// add adds a stream. The IDs have to come in their order.
func (w *ledgerWriter) add(id streamID, r record) error {
	b := append(append(w.buffer[:0], 1), id[:]...)
	number, known := w.namespaces[r.namespace]
	if !known {
		number = uint64(len(w.namespaces))
		w.namespaces[r.namespace] = number
	}
	b = binary.AppendUvarint(b, number)
	if !known {
		b = append(binary.AppendUvarint(b, uint64(len(r.namespace))), r.namespace...)
	}
	for _, n := range []int64{r.bytes, r.content, r.copies, r.index, r.written, r.last.Unix(), r.due.Unix()} {
		b = binary.AppendVarint(b, n)
	}
	held := byte(0)
	if r.held {
		held = 1
	}
	b = append(b, held)
	w.buffer = b
	w.count++
	_, err := w.zip.Write(w.buffer)
	return err
}

// end returns the ledger.
func (w *ledgerWriter) end() ([]byte, error) {
	w.buffer = binary.AppendUvarint(append(w.buffer[:0], 0), w.count)
	_, err := w.zip.Write(w.buffer)
	if err := errors.Join(err, w.zip.Close()); err != nil {
		return nil, err
	}
	compressors.Put(w.zip)
	return w.out.Bytes(), nil
}

// A ledgerReader decodes a ledger, a stream at a time. All of its errors are errLedger.
type ledgerReader struct {
	head       ledgerHead
	in         *bufio.Reader
	namespaces []string
	last       streamID
	count      uint64
}

func damaged(what string, err error) error { return fmt.Errorf("%w: %s: %w", errLedger, what, err) }

var errOutOfRange = errors.New("out of range")

// readLedger begins to decode a ledger.
func readLedger(content []byte) (*ledgerReader, error) {
	zip, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, damaged("the compressed data", err)
	}
	r := &ledgerReader{in: bufio.NewReader(zip)}
	length, err := binary.ReadUvarint(r.in)
	if err == nil && length > maxLedgerHead {
		err = errOutOfRange
	}
	if err != nil {
		return nil, damaged("the length of the head", err)
	}
	head := make([]byte, length)
	if _, err = io.ReadFull(r.in, head); err == nil {
		err = json.Unmarshal(head, &r.head)
	}
	if err == nil && r.head.Version != ledgerVersion {
		err = fmt.Errorf("its format is %d", r.head.Version)
	}
	if err != nil {
		return nil, damaged("the head", err)
	}
	return r, nil
}

// next returns the next stream, or io.EOF at the end of a whole ledger.
func (r *ledgerReader) next() (id streamID, of record, err error) {
	more, err := r.in.ReadByte()
	switch {
	case err != nil:
		return id, of, damaged("a stream", err)
	case more == 0:
		return id, of, r.end()
	case more != 1:
		return id, of, damaged("a stream", errOutOfRange)
	}
	if _, err := io.ReadFull(r.in, id[:]); err != nil {
		return id, of, damaged("an ID", err)
	}
	if r.count > 0 && id.compare(r.last) <= 0 {
		return id, of, damaged("an ID", errOutOfRange)
	}
	r.last = id
	r.count++
	if of.namespace, err = r.namespace(); err != nil {
		return id, of, err
	}
	last, due := int64(0), int64(0)
	for _, n := range []*int64{&of.bytes, &of.content, &of.copies, &of.index, &of.written, &last, &due} {
		if *n, err = binary.ReadVarint(r.in); err != nil {
			return id, of, damaged("a record", err)
		}
	}
	of.last, of.due = time.Unix(last, 0), time.Unix(due, 0)
	held, err := r.in.ReadByte()
	if err == nil && held > 1 {
		err = errOutOfRange
	}
	if err != nil {
		return id, of, damaged("a record", err)
	}
	of.held = held == 1
	return id, of, nil
}

func (r *ledgerReader) namespace() (string, error) {
	number, err := binary.ReadUvarint(r.in)
	if err == nil && number < uint64(len(r.namespaces)) {
		return r.namespaces[number], nil
	}
	if err == nil && (number > uint64(len(r.namespaces)) || number >= maxNamespaces) {
		err = errOutOfRange
	}
	length := uint64(0)
	if err == nil {
		length, err = binary.ReadUvarint(r.in)
	}
	if err == nil && length > maxNamespaceName {
		err = errOutOfRange
	}
	name := make([]byte, min(length, maxNamespaceName))
	if err == nil {
		_, err = io.ReadFull(r.in, name)
	}
	if err == nil {
		err = streams.CheckNamespace(string(name))
	}
	if err != nil {
		return "", damaged("a namespace", err)
	}
	r.namespaces = append(r.namespaces, string(name))
	return string(name), nil
}

// end verifies that the ledger is whole.
func (r *ledgerReader) end() error {
	count, err := binary.ReadUvarint(r.in)
	if err == nil && count != r.count {
		err = fmt.Errorf("it has %d streams instead of %d", r.count, count)
	}
	if err == nil {
		if _, err = r.in.ReadByte(); err == nil {
			err = errors.New("something follows it")
		}
	}
	if !errors.Is(err, io.EOF) {
		return damaged("the end", err)
	}
	return io.EOF
}
