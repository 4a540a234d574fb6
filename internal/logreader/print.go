// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
)

// Options say which logs of a target to print, and how.
type Options struct {
	Target target.Target
	// Selector selects the pods whose logs are printed by their labels, instead of Target.
	Selector labels.Selector
	// Container and Stream select by name; "" selects all.
	Container, Stream string
	// Previous selects the run of each container before its last one.
	Previous bool
	Follow   bool
	// Events selects the events of containers, instead of their output.
	Events bool
	// Tail is the number of last lines to print of each stream. A negative number stands for
	// all.
	Tail    int
	Printer *Printer
	// Warnings is where warnings go.
	Warnings io.Writer
}

// events is the name of the stream with the events of a container.
const events = "events"

const (
	// resumePause is the pause before reconnecting after a connection broke.
	resumePause = time.Second
	// maxFruitless bounds the requests in a row that bring no new bytes of a stream, unless
	// it is followed.
	maxFruitless = 5
)

// Print prints the logs of a target. With Follow, it ends with the target, or with ctx.
func (c *Client) Print(ctx context.Context, o Options) error {
	if o.Target.OwnerLabel == loglabels.CronJob { // pkg/pod/logowner.go
		_, _ = fmt.Fprintf(o.Warnings, "The logs of %s are those of the Jobs named %s-MINUTES, as a CronJob names its Jobs.\n", o.Target, o.Target.Of)
	}
	if o.Follow {
		return newFollower(c, o).run(ctx)
	}
	l, err := c.listing(ctx, o)
	if err != nil {
		return err
	}
	streams, err := c.choose(ctx, o, l.streams, l.more)
	if err != nil {
		return err
	}
	lost, errLost := c.lostRuns(ctx, o, l)
	switch {
	case len(streams) > 0:
		err = newMerger(c, o, streams).run(ctx)
	case errLost == nil && len(lost) == 0:
		return c.noLogsError(ctx, o)
	}
	err = withLost(err, lost, func(text string) { _, _ = fmt.Fprintln(o.Warnings, text) })
	return errors.Join(err, errLost)
}

// noLogsError returns the error for a target without logs, with the conditions for having
// some.
func (c *Client) noLogsError(ctx context.Context, o Options) error {
	if err := c.checkContainer(ctx, o); err != nil {
		return err
	}
	what := ""
	if o.Container != "" {
		what = fmt.Sprintf(" of container %q", o.Container)
	}
	if o.Previous {
		return fmt.Errorf("the log service has no logs%s of %s in namespace %q of before a restart: leave --previous out to read those of the last run", what, o.whose(), c.Namespace)
	}
	more := "; of pods that are gone, it finds logs by the labels " + strings.Join(loglabels.OfPods(), ", ") + " alone"
	if o.Selector == nil {
		more = c.similarNames(ctx, o.Target)
	}
	return fmt.Errorf("the log service has no logs%s of %s in namespace %q: it has those of containers that have printed something and have reached the service before their end, in pods with the annotation entrypointer.dev/logs: stream or tee%s", what, o.whose(), c.Namespace, more)
}

// streams lists the selected streams: containers in the order of their starts, and of
// each container stdout before stderr.
func (c *Client) streams(ctx context.Context, o Options) ([]Stream, error) {
	all, more, err := c.list(ctx, o)
	if err != nil {
		return nil, err
	}
	return c.choose(ctx, o, all, more)
}

// choose returns the selected ones of the listed streams, sorted as streams does. more says that the
// service has others, of which choose warns.
func (c *Client) choose(ctx context.Context, o Options, listed []Stream, more bool) (_ []Stream, err error) {
	all := slices.Clone(listed)
	if more {
		_, _ = fmt.Fprintf(o.Warnings, "There are more logs of %s than the log service lists: only the latest ones follow.\n", o.whose())
	}
	slices.SortStableFunc(all, func(a, b Stream) int {
		return cmp.Or(strings.Compare(a.Start, b.Start), strings.Compare(a.Container, b.Container), strings.Compare(a.PodUID, b.PodUID), -strings.Compare(a.Name, b.Name))
	})
	if o.Previous { // a run is known by any of its streams
		if all, err = c.previous(ctx, o, all); err != nil {
			return nil, err
		}
	}
	for at := range all {
		if o.Printer != nil { // records are read whole
			all[at].span = o.Printer.Span
		}
	}
	return slices.DeleteFunc(all, func(s Stream) bool {
		return o.Container != "" && s.Container != o.Container || o.Stream != "" && s.Name != o.Stream || (s.Name == events) != o.Events
	}), nil
}

// startOffset returns the offset from which to read a stream for Tail.
func (c *Client) startOffset(ctx context.Context, s Stream, o Options) (int64, error) {
	if o.Tail < 0 {
		return 0, nil
	}
	end, err := c.knownEnd(ctx, s.ID)
	if err != nil || o.Tail == 0 {
		return end, err
	}
	return c.startOfTail(ctx, s, o.Tail, end)
}

// startOfTail returns the offset at which the last lines of a stream, up to Until, begin.
func (c *Client) startOfTail(ctx context.Context, s Stream, lines int, end int64) (int64, error) {
	// Begin near the end, and further back each time, to read little of a long log.
	s.span.Since = time.Time{} // which the last lines may be older than
	for size := int64(64 << 10); ; size *= 8 {
		from := max(0, end-size)
		t := &tail{lines: lines}
		if _, err := c.copyParts(ctx, s, from, false, t); err != nil {
			return 0, err
		}
		if begin, found := t.begin(from); found || from == 0 {
			return begin, nil
		}
	}
}

// A tail is a partSink that finds the beginning of the last lines.
type tail struct {
	lines int
	// ends are the offsets behind the last newlines, at most lines+1 of them.
	ends []int64
	at   int64 // the offset behind the last part
}

// part implements partSink.
func (t *tail) part(p part) error {
	for i := 0; i < len(p.Data); {
		n := bytes.IndexByte(p.Data[i:], '\n')
		if n < 0 {
			break
		}
		i += n + 1
		t.ends = append(t.ends, p.From+int64(i))
		if len(t.ends) > t.lines+1 {
			t.ends = t.ends[1:]
		}
	}
	t.at = p.To
	return nil
}

// begin returns the offset of the last lines. If the tail has seen fewer lines, it
// returns from, and found is false.
func (t *tail) begin(from int64) (begin int64, found bool) {
	need := t.lines // the newline before the last lines counts as well
	if n := len(t.ends); n > 0 && t.ends[n-1] == t.at {
		need++ // the last line ends with a newline
	}
	if len(t.ends) < need {
		return from, false
	}
	return t.ends[len(t.ends)-need], true
}

// A partSink takes the parts of a stream.
type partSink interface{ part(p part) error }

// A sinkError is an error of a partSink, rather than of the connection.
type sinkError struct{ error }

// copyParts passes on a stream from an offset on, and reconnects if the connection
// breaks. Without follow, it ends at the last byte so far.
func (c *Client) copyParts(ctx context.Context, s Stream, from int64, follow bool, to partSink) (complete bool, err error) {
	for fruitless := 0; ; {
		before := from
		complete, err := c.read(ctx, s, from, follow, func(p part) error {
			if err := to.part(p); err != nil {
				return sinkError{err}
			}
			from = p.To
			s.span.Since = time.Time{} // which is found, and needn't be looked for again
			return nil
		})
		if complete || err == nil && !follow {
			return complete, nil
		}
		if failed, is := errors.AsType[sinkError](err); is {
			return false, failed.error
		}
		if fruitless++; from > before {
			fruitless = 0
		}
		if ctx.Err() != nil || isFinal(err) || !follow && fruitless >= maxFruitless {
			return false, fmt.Errorf("reading %s from byte %d on: %w", s, from, errors.Join(err, ctx.Err()))
		}
		select {
		case <-ctx.Done():
		case <-time.After(resumePause):
		}
	}
}

// isFinal reports whether a request will fail again.
func isFinal(err error) bool {
	return errors.Is(err, errManySelected) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err)
}
