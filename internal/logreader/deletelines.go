// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	// maxLinesDeleted bounds the lines of one command, as the log service bounds a search.
	maxLinesDeleted = 100_000
	// maxRanges is how many ranges of bytes the log service takes at a time.
	maxRanges = 1000
)

// A LinesDeletion is what was done with the lines of a stream that match.
type LinesDeletion struct {
	Of    Stream
	Lines int
	Err   error
}

// DeleteLines deletes the lines of a target that match, of one stream after another. The log
// service searches, and then deletes the lines that it has found: what is printed in between
// stays. A dry run prints the lines, and asks whether they could be deleted. It returns
// ErrNothingFound if none matches. A failure for one stream doesn't stop the others, and is one
// of the returned errors as well.
func (c *Client) DeleteLines(ctx context.Context, o Options, q Search, dryRun bool, each func(LinesDeletion)) error {
	requests, err := c.searchRequests(ctx, o)
	if err != nil {
		return err
	}
	q.Limit = maxLinesDeleted
	s := &searching{Client: c, Options: o, query: q, found: &foundLines{print: dryRun}}
	o.Printer.Prefix = new(true)
	for _, request := range requests {
		if err := s.run(ctx, request); err != nil {
			return err
		}
	}
	var failed []error
	for _, lines := range s.found.streams {
		err := c.deleteLines(ctx, lines, dryRun)
		each(LinesDeletion{lines.of, lines.count, err})
		failed = append(failed, err)
	}
	err = s.result(ctx)
	if s.limited {
		err = fmt.Errorf("%s: there are more than the %d lines that were found: repeat the command, or delete all logs of the container", s.what(), maxLinesDeleted)
	}
	return errors.Join(append(failed, err)...)
}

// foundLines are the lines that a search has found.
type foundLines struct {
	print   bool // also prints them
	streams []*linesOf
}

// linesOf are the lines of a stream.
type linesOf struct {
	of     Stream
	count  int
	ranges [][2]int64 // that don't touch, from an offset up to another, exclusive
}

// add adds a line. Those of a stream come one after another, in order.
func (f *foundLines) add(of Stream, from, to int64) {
	if len(f.streams) == 0 || f.streams[len(f.streams)-1].of.ID != of.ID {
		f.streams = append(f.streams, &linesOf{of: of})
	}
	lines := f.streams[len(f.streams)-1]
	lines.count++
	if last := len(lines.ranges) - 1; last >= 0 && lines.ranges[last][1] == from {
		lines.ranges[last][1] = to
		return
	}
	lines.ranges = append(lines.ranges, [2]int64{from, to})
}

// deleteLines deletes lines of a stream.
func (c *Client) deleteLines(ctx context.Context, lines *linesOf, dryRun bool) error {
	for ranges := range slices.Chunk(lines.ranges, maxRanges) {
		body := struct {
			metav1.TypeMeta

			Ranges []string `json:"ranges"`
		}{TypeMeta: metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}}
		for _, r := range ranges {
			body.Ranges = append(body.Ranges, fmt.Sprintf("%d-%d", r[0], r[1]-1))
		}
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		_, err = untilDone(ctx, func() *rest.Request {
			return c.deletion(lines.of.ID, dryRun).SetHeader("Content-Type", "application/json").Body(encoded)
		})
		if apierrors.IsNotFound(err) {
			err = fmt.Errorf("%w: its logs were deleted just now, or the log service is of a release that deletes no lines", err)
		}
		if err != nil {
			return c.explainChange(err, fmt.Sprintf("deleting lines of %s of container %q of pod %q in namespace %q", lines.of.Name, lines.of.Container, lines.of.Pod, c.Namespace))
		}
	}
	return nil
}
