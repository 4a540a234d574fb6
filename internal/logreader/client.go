// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package logreader reads logs of the log service through the API server. It also works
// for pods that are gone.
package logreader

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

// A Stream is the stdout, the stderr or the events of one start of a container.
type Stream struct {
	ID, Name, Pod, PodUID, Container, Start string
	Labels                                  map[string]string // those of package loglabels

	former bool // a later run of the container has sent something
	span   Span // what of it is read
}

// A Span is a span of time, from Since on and up to Until, exclusive. A bound that is zero is
// none.
type Span struct{ Since, Until time.Time }

// has reports whether a line is in the span, to the millisecond.
func (s Span) has(l line) bool {
	return (s.Since.IsZero() || l.time >= s.Since.UnixMilli()) && (s.Until.IsZero() || l.printed < s.Until.UnixMilli())
}

// overlaps reports whether something of a run can be in the span.
func (s Span) overlaps(began, ended time.Time) bool {
	return !ended.Before(s.Since) && (s.Until.IsZero() || began.Before(s.Until))
}

// parameters adds the bounds to a request about a stream, under the names that the log service
// has for them.
func (s Span) parameters(r *rest.Request, since, until string) *rest.Request {
	for name, at := range map[string]time.Time{since: s.Since, until: s.Until} {
		if !at.IsZero() {
			r = r.Param(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return r
}

// markFormer marks the streams of runs that others have followed.
func markFormer(streams []Stream) {
	latest := map[[2]string]int64{}
	for _, s := range streams {
		run := [2]string{s.PodUID, s.Container}
		latest[run] = max(latest[run], s.began())
	}
	for at, s := range streams {
		streams[at].former = s.began() < latest[[2]string{s.PodUID, s.Container}]
	}
}

// began returns the time of the start in Unix milliseconds, 0 if it is unknown.
func (s Stream) began() int64 {
	start, err := time.Parse(time.RFC3339Nano, s.Start)
	if err != nil {
		return 0
	}
	return start.UnixMilli()
}

// A Client reads the logs of a namespace.
type Client struct {
	REST      rest.Interface
	Namespace string
}

func (c *Client) get(path ...string) *rest.Request {
	return c.REST.Get().AbsPath(append([]string{"/apis", endpoint.Group, endpoint.Version, "namespaces", c.Namespace, "logs"}, path...)...)
}

// listBy returns the streams of a pod or a label, and whether there are more.
func (c *Client) listBy(ctx context.Context, o Options, key, value string) (streams []Stream, more bool, err error) {
	answer, err := c.get().Param(key, value).DoRaw(ctx)
	if err != nil {
		return nil, false, c.explain(err, o)
	}
	var body struct {
		Logs []Stream
		More bool
	}
	if err := json.Unmarshal(answer, &body); err != nil {
		return nil, false, fmt.Errorf("listing the logs of %s: reading the response: %w", o.whose(), err)
	}
	markFormer(body.Logs)
	return body.Logs, body.More, nil
}

// A byteRange has the offset of its first byte, and that behind its last.
type byteRange struct{ from, to int64 }

// A streamState says which bytes of a stream are known.
type streamState struct{ stored, dropped, deleted, missing []byteRange }

// state returns the state of a stream.
func (c *Client) state(ctx context.Context, id string) (state streamState, err error) {
	answer, err := c.get(id).DoRaw(ctx)
	if err != nil {
		return state, fmt.Errorf("asking for the state of a log: %w", err)
	}
	var body struct{ Stored, Dropped, Deleted, Missing []string }
	if err := json.Unmarshal(answer, &body); err != nil {
		return state, fmt.Errorf("asking for the state of a log: reading the response: %w", err)
	}
	for texts, ranges := range map[*[]string]*[]byteRange{&body.Stored: &state.stored, &body.Dropped: &state.dropped, &body.Deleted: &state.deleted, &body.Missing: &state.missing} {
		for _, text := range *texts {
			first, last, _ := strings.Cut(text, "-")
			from, err1 := strconv.ParseInt(first, 10, 64)
			to, err2 := strconv.ParseInt(last, 10, 64)
			if err := errors.Join(err1, err2); err != nil {
				return state, fmt.Errorf("asking for the state of a log: its range is %q: %w", text, err)
			}
			*ranges = append(*ranges, byteRange{from, to + 1})
		}
	}
	return state, nil
}

// knownEnd returns the offset behind the last known byte of a stream.
func (c *Client) knownEnd(ctx context.Context, id string) (end int64, err error) {
	state, err := c.state(ctx, id)
	for _, r := range slices.Concat(state.stored, state.dropped, state.deleted, state.missing) {
		end = max(end, r.to)
	}
	return end, err
}

// A part is a range of a stream.
type part struct {
	From, To int64  // offsets in bytes; To is behind the last
	Data     []byte // nil for bytes that were dropped or deleted, or are missing, and for a mark
	// Times are pairs of an offset and the Unix time, in milliseconds, at which the data
	// from there on was printed.
	Times   [][2]int64
	dropped bool
	deleted bool // by retention
	cutOff  bool // the part is empty, and stands for the unknown end of a stream of events
}

// placeholder returns the line in the place of bytes that were dropped or deleted, or are
// missing, or of an unknown end. The time is that of the last line.
func (p part) placeholder(last int64) []byte {
	what := "are missing"
	switch {
	case p.cutOff:
		return cutOffEvent(last)
	case p.dropped:
		what = "were dropped"
	case p.deleted:
		what = "were deleted by retention"
	}
	return fmt.Appendf(nil, noticeBegins+"%d bytes %s]\n", p.To-p.From, what)
}

// noticeBegins begins a line in the place of bytes.
const noticeBegins = "[entrypointer: "

// read calls each for the parts of a stream from an offset on, and reports whether the
// stream is complete with the last of them. Without follow, it ends at the last byte so
// far, or with the span of the stream.
func (c *Client) read(ctx context.Context, s Stream, from int64, follow bool, each func(part) error) (complete bool, err error) {
	// The API server doesn't limit the time of requests whose path ends with "log".
	request := c.get(s.ID, "log").Param("from", strconv.FormatInt(from, 10)).Param("follow", strconv.FormatBool(follow))
	body, err := s.span.parameters(request, "sinceTime", "untilTime").
		SetHeader("Accept", "text/event-stream").Stream(ctx)
	if err != nil {
		return false, err
	}
	defer body.Close()
	lines := bufio.NewReader(body)
	kind := ""
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case key == "event":
			kind = value
		case key == "data" && kind == "end":
			return true, nil
		case key == "data":
			p := part{dropped: kind == "dropped", deleted: kind == "deleted"}
			if err := json.Unmarshal([]byte(value), &p); err != nil {
				return false, fmt.Errorf("reading an event: %w", err)
			}
			if err := each(p); err != nil {
				return false, err
			}
		}
	}
}
