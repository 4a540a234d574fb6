// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"bytes"

	"github.com/entrypointer/entrypointer/internal/mask"
)

// A part of a stream is what one request tells the service. It doesn't change while it
// is sent, and is the same when it is sent again.
type part struct {
	kind     kind
	from, to int64
	packed   *bytes.Buffer // what is sent of bytes
	encoding string        // of them
	// state is where to take the stream up when all is done up to here, nil if this
	// can't be said between this part and the next.
	state *mask.State

	underWay, done, failed bool
}

// A kind is what a part says.
type kind int

const (
	stored  kind = iota // these are the bytes of the range
	dropped             // those of the range will never come
	ended               // the stream ends here
)

func (p *part) length() int64 { return p.to - p.from }

// send asks the service to keep it.
func (p *part) send(c *client, id string) error {
	switch p.kind {
	case dropped:
		return c.drop(id, p.from, p.length())
	case ended:
		return c.end(id, p.to)
	default:
		return c.patch(id, p.from, p.length(), p.packed.Bytes(), p.encoding)
	}
}

// A queue has the parts of a stream that aren't done, in order, and those behind them.
type queue []*part

// underWay is how many of them the service hasn't answered.
func (q queue) underWay() (count int) {
	for _, p := range q {
		if p.underWay {
			count++
		}
	}
	return count
}

// waiting is the first that is to be sent, or sent again, nil if there is none.
func (q queue) waiting() *part {
	for _, p := range q {
		if !p.underWay && !p.done {
			return p
		}
	}
	return nil
}

// failed reports whether one has to be sent again.
func (q queue) failed() bool {
	for _, p := range q {
		if p.failed {
			return true
		}
	}
	return false
}
