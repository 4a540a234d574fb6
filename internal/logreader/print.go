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
)

// Options say what of a target's logs is printed, and how.
type Options struct {
	Target Target
	// Container and Stream are the names of those that are; "" is all.
	Container, Stream string
	Follow            bool
	// Events asks for what happened to containers, and not for what they printed.
	Events bool
	// Tail is how many of the last lines of each stream are; all if it is negative.
	Tail    int
	Printer *Printer
	// Warnings is where people look for what isn't a log.
	Warnings io.Writer
}

// events is the name of the stream that has what happened to a container.
const events = "events"

const (
	// resumeAfter lies between a cut connection and the next.
	resumeAfter = time.Second
	// attempts is how often in a row a stream is asked for in vain, if it isn't followed.
	attempts = 5
)

// Print prints the logs of a target. What follows ends with what it follows, or with ctx.
func (c *Client) Print(ctx context.Context, o Options) error {
	if o.Follow {
		return newFollowing(c, o).run(ctx)
	}
	streams, err := c.streams(ctx, o)
	if err != nil {
		return err
	}
	if len(streams) == 0 {
		return c.nothing(o)
	}
	return newMerging(c, o, streams).run(ctx)
}

// nothing says why there may be nothing.
func (c *Client) nothing(o Options) error {
	what := ""
	if o.Container != "" {
		what = fmt.Sprintf(" of container %q", o.Container)
	}
	return fmt.Errorf("the log service has no logs%s of %s in namespace %q: it has those of containers that have printed something, in pods with the annotation entrypointer.dev/logs: stream or tee", what, o.Target, c.Namespace)
}

// streams are those that are asked for: containers in the order in which they
// started, and of each its stdout before its stderr.
func (c *Client) streams(ctx context.Context, o Options) ([]Stream, error) {
	all, more, err := c.list(ctx, o.Target)
	if err != nil {
		return nil, err
	}
	if more {
		_, _ = fmt.Fprintf(o.Warnings, "There are more logs of %s than the log service lists: only those made last are here.\n", o.Target)
	}
	all = slices.DeleteFunc(all, func(s Stream) bool {
		return o.Container != "" && s.Container != o.Container || o.Stream != "" && s.Name != o.Stream || (s.Name == events) != o.Events
	})
	slices.SortStableFunc(all, func(a, b Stream) int {
		return cmp.Or(strings.Compare(a.Start, b.Start), strings.Compare(a.Container, b.Container), strings.Compare(a.PodUID, b.PodUID), -strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

// begin is an offset of a stream before which nothing is to be printed.
func (c *Client) begin(ctx context.Context, s Stream, o Options) (int64, error) {
	if o.Tail < 0 && o.Printer.Since.IsZero() {
		return 0, nil
	}
	end, err := c.end(ctx, s.ID)
	if err != nil || o.Tail == 0 {
		return end, err
	}
	from := int64(0)
	if o.Tail > 0 {
		if from, err = c.beginTail(ctx, s, o.Tail, end); err != nil {
			return 0, err
		}
	}
	if o.Printer.Since.IsZero() {
		return from, nil
	}
	return c.beginSince(ctx, s, o.Printer.Since.UnixMilli(), from, end)
}

// beginSince finds, between two offsets, one before which all came before a time. From
// there on, the printer looks at each line.
func (c *Client) beginSince(ctx context.Context, s Stream, since, from, end int64) (int64, error) {
	for end-from > leastAhead {
		middle := from + (end-from)/2
		first := &firstTime{}
		if _, err := c.copy(ctx, s, middle, false, first); err != nil && !errors.Is(err, errEnough) {
			return 0, err
		}
		if first.found && first.time < since {
			from = middle
		} else {
			end = middle
		}
	}
	return from, nil
}

// A firstTime takes the time of the first byte that there is.
type firstTime struct {
	time  int64
	found bool
}

func (f *firstTime) part(p part) error {
	if len(p.Times) == 0 {
		return nil
	}
	f.time, f.found = p.Times[0][1], true
	return errEnough
}

// beginTail is the offset at which the last lines of a stream begin.
func (c *Client) beginTail(ctx context.Context, s Stream, lines int, end int64) (int64, error) {
	// A look from further and further back, so that of a long log little is read.
	for size := int64(64 << 10); ; size *= 8 {
		from := max(0, end-size)
		t := &tail{lines: lines}
		if _, err := c.copy(ctx, s, from, false, t); err != nil {
			return 0, err
		}
		if begin, found := t.begin(from); found || from == 0 {
			return begin, nil
		}
	}
}

// A tail looks for the last lines of what is written to it.
type tail struct {
	lines int
	// ends are the offsets behind the last newlines, one more than lines.
	ends []int64
	at   int64 // how much was written, in bytes of the stream
}

// part is what it takes of a stream.
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

// begin is where the last lines begin, and whether all of them are known; or else
// where the look began.
func (t *tail) begin(from int64) (begin int64, found bool) {
	need := t.lines // ends of lines before the last ones
	if n := len(t.ends); n > 0 && t.ends[n-1] == t.at {
		need++ // the last line has its end
	}
	if len(t.ends) < need {
		return from, false
	}
	return t.ends[len(t.ends)-need], true
}

// A taker takes the parts of a stream.
type taker interface{ part(p part) error }

// errTaker marks an error that isn't the connection's.
type errTaker struct{ error }

// copy passes on a stream from an offset on, and goes on where a connection was cut.
// Without follow, it ends where no more is there.
func (c *Client) copy(ctx context.Context, s Stream, from int64, follow bool, to taker) (complete bool, err error) {
	for inVain := 0; ; {
		before := from
		complete, err := c.read(ctx, s.ID, from, follow, func(p part) error {
			if err := to.part(p); err != nil {
				return errTaker{err}
			}
			from = p.To
			return nil
		})
		if complete || err == nil && !follow {
			return complete, nil
		}
		if failed, is := errors.AsType[errTaker](err); is {
			return false, failed.error
		}
		if inVain++; from > before {
			inVain = 0
		}
		if ctx.Err() != nil || isFinal(err) || !follow && inVain >= attempts {
			return false, fmt.Errorf("reading %s of container %q of pod %q from byte %d on: %w", printable(s.Name), s.Container, s.Pod, from, errors.Join(err, ctx.Err()))
		}
		select {
		case <-ctx.Done():
		case <-time.After(resumeAfter):
		}
	}
}

// isFinal says whether trying again would be in vain.
func isFinal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err)
}
