// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"bytes"
	"time"

	"github.com/entrypointer/entrypointer/internal/mask"
)

// A part is what one request says of a stream. It doesn't change while it is in flight,
// and a retry sends the same.
type part struct {
	kind     partKind
	from, to int64
	packed   *bytes.Buffer // the body of a dataPart
	encoding string        // the Content-Encoding of packed
	// state is where masking can resume once everything before the end of this part is done.
	// It is nil if masking can't resume there.
	state *mask.State

	inFlight, done, failed bool
}

// A partKind is the kind of a part.
type partKind int

const (
	dataPart    partKind = iota // the bytes of the range
	droppedPart                 // the bytes of the range are lost
	endPart                     // the stream ends at the offset
)

func (p *part) length() int64 { return p.to - p.from }

// send sends the part once. It returns for how long the stream may linger.
func (p *part) send(c *client, id string) (linger time.Duration, err error) {
	switch p.kind {
	case droppedPart:
		return c.drop(id, p.from, p.length())
	case endPart:
		return c.end(id, p.to)
	default:
		return c.patch(id, p.from, p.length(), p.packed.Bytes(), p.encoding)
	}
}

// A queue has, in the order of the stream, the parts from the first unfinished one on.
type queue []*part

// inFlight counts the parts whose requests have no response yet.
func (q queue) inFlight() (count int) {
	for _, p := range q {
		if p.inFlight {
			count++
		}
	}
	return count
}

// nextToSend returns the first part to send, or to send again; nil if there is none.
func (q queue) nextToSend() *part {
	for _, p := range q {
		if !p.inFlight && !p.done {
			return p
		}
	}
	return nil
}

// hasFailed reports whether a part has to be sent again.
func (q queue) hasFailed() bool {
	for _, p := range q {
		if p.failed {
			return true
		}
	}
	return false
}
