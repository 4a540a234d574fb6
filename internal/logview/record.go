// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logview

import (
	"encoding/binary"
)

// A record is a line as it is stored, or a piece of one that is longer than pieceSize. All but
// its text is known without the records before it.
type record struct {
	stream int
	// fold is the number of the fold that the record is in, 0 for none.
	fold   int
	number int64 // of the line in its stream, from 1 on
	offset int64 // of its first byte in its stream
	time   int64 // Unix milliseconds
	style  style // in which it begins
	flags  flags
	text   []byte // without the newline
}

type flags uint8

const (
	// isGap says that the text stands for bytes that aren't there.
	isGap flags = 1 << iota
	// plain says that the record shows its own bytes.
	plain
	// isPiece says that an earlier record has the beginning of the line.
	isPiece
	// unended says that the line has no newline, or that the next piece has it.
	unended
	// opensFold says that the line is the title of a fold.
	opensFold
)

// append adds the encoded record to a block.
func (r *record) append(block []byte) []byte {
	block = append(block, byte(r.flags))
	for _, n := range [...]uint64{uint64(r.stream), uint64(r.fold), uint64(r.number), uint64(r.offset), uint64(r.time), r.style.pack(), uint64(len(r.text))} { //nolint:gosec // G115: none is negative
		block = binary.AppendUvarint(block, n)
	}
	return append(block, r.text...)
}

// next decodes the first record of a block, and returns the rest of the block. The text is
// that of the block. Only what append has made is decoded.
func (r *record) next(block []byte) (rest []byte) {
	r.flags, block = flags(block[0]), block[1:]
	var n [7]uint64
	for at := range n {
		value, size := binary.Uvarint(block)
		n[at], block = value, block[size:]
	}
	r.stream, r.fold, r.number, r.offset, r.time = int(n[0]), int(n[1]), int64(n[2]), int64(n[3]), int64(n[4]) //nolint:gosec // G115: as encoded
	r.style = unpack(n[5])
	length := n[6]
	r.text = block[:length:length]
	return block[length:]
}

// shown returns the text that the record shows.
func (r *record) shown() []byte {
	if r.flags&(plain|isGap) != 0 {
		return r.text
	}
	return shown(r.text)
}
