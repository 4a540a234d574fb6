// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/internal/target"
)

const (
	// recordsAtOnce bounds the streams of events that are read at the same time.
	recordsAtOnce = 8
	// maxRecord bounds what is read of one, in bytes.
	maxRecord = 64 << 10
)

// A Record has the events of one start of a container, as lines of JSON. Lines that aren't
// JSON stand for bytes that are missing.
type Record struct {
	Stream
	Lines [][]byte
}

// Began returns the time of the start, zero if it is unknown.
func (r Record) Began() time.Time {
	began, err := time.Parse(time.RFC3339Nano, r.Start)
	if err != nil || began.Unix() <= 0 { // the sender says it
		return time.Time{}
	}
	return began
}

// Records returns the events of a target's containers. With an error, it returns those that
// could be read.
func (c *Client) Records(ctx context.Context, t target.Target, warnings io.Writer) ([]Record, error) {
	streams, err := c.streams(ctx, Options{Target: t, Events: true, Warnings: warnings})
	if err != nil {
		return nil, err
	}
	records := make([]Record, len(streams))
	var reading errgroup.Group
	reading.SetLimit(recordsAtOnce)
	for at, s := range streams {
		reading.Go(func() error {
			to := &lineBuffer{}
			_, err := c.copyParts(ctx, s, 0, false, to)
			if err != nil && !errors.Is(err, errEnough) {
				return err
			}
			records[at] = Record{s, to.lines}
			return nil
		})
	}
	err = reading.Wait()
	return slices.DeleteFunc(records, func(r Record) bool { return r.ID == "" }), err
}

// A lineBuffer is a partSink that holds the lines of a stream, up to maxRecord.
type lineBuffer struct {
	splitter
	lines [][]byte
	size  int
}

func (b *lineBuffer) part(p part) error {
	b.feed(p)
	for {
		l, whole := b.next()
		if !whole {
			return nil
		}
		if b.size += len(l.text); b.size > maxRecord {
			return errEnough
		}
		b.lines = append(b.lines, slices.Clone(l.text))
	}
}
