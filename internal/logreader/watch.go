// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"bytes"
	"context"
	"errors"
)

// A Line is a line of a stream, or a piece of one that is longer than 64 KiB.
type Line struct {
	Stream
	Text   []byte // without its newline; valid until the next call
	Offset int64  // of its first byte in the stream
	Time   int64  // when its first byte was printed, in Unix milliseconds
	// Ended says that it ends with a newline.
	Ended bool
	// Notice says that it stands for bytes that were dropped or deleted, or are missing.
	Notice bool
}

func (s *sink) exported(l line) Line {
	return Line{s.of, bytes.TrimSuffix(l.text, []byte("\n")), l.from, l.time, l.ended, l.isNotice}
}

// Watch calls each for the lines of a target: for those that are there in the order in which they
// were printed, and, once live was called, for new ones as they arrive. It ends with the target,
// or with ctx. each isn't called at the same time again. The options Printer, Follow and Tail don't
// count.
func (c *Client) Watch(ctx context.Context, o Options, each func(Line) error, live func()) error {
	o.Printer, o.Tail, o.Follow = &Printer{each: each, containers: map[string]int{}}, -1, true
	streams, err := c.streams(ctx, o)
	if err != nil {
		return err
	}
	m := newMerger(c, o, streams)
	read := append([]*source(nil), m.sources...)
	var cutOff *CutOffError
	if err := m.run(ctx); err != nil && !errors.As(err, &cutOff) {
		return err
	}
	live()
	f := newFollower(c, o)
	for _, s := range read {
		f.read[s.stream.ID] = readBefore{s.from, s.complete || s.hasStopped}
	}
	f.cutOff.Add(int64(m.cutOff))
	return f.run(ctx)
}

// readBefore is what of a stream was read before it is followed.
type readBefore struct {
	to    int64 // the offset behind the last byte
	whole bool  // nothing follows
}
