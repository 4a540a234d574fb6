// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package logreader reads logs of the log service through the API server, as kubectl
// does of running pods.
package logreader

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

// A Stream is what a container has printed to stdout or stderr in one of its lives, or
// what happened to it.
type Stream struct {
	ID, Name, Pod, PodUID, Container, Start string
}

// began is when that life began, in Unix milliseconds, 0 if its sender didn't say so.
func (s Stream) began() int64 {
	start, err := time.Parse(time.RFC3339Nano, s.Start)
	if err != nil {
		return 0
	}
	return start.UnixMilli()
}

// A Client asks the API server for the logs of a namespace.
type Client struct {
	REST      rest.Interface
	Namespace string
}

func (c *Client) get(path ...string) *rest.Request {
	return c.REST.Get().AbsPath(append([]string{"/apis", endpoint.Group, endpoint.Version, "namespaces", c.Namespace, "logs"}, path...)...)
}

// list returns the streams of a target, and whether there are more.
func (c *Client) list(ctx context.Context, t Target) (streams []Stream, more bool, err error) {
	key, value := t.query()
	answer, err := c.get().Param(key, value).DoRaw(ctx)
	if err != nil {
		return nil, false, c.explain(err, t)
	}
	var body struct {
		Logs []Stream
		More bool
	}
	if err := json.Unmarshal(answer, &body); err != nil {
		return nil, false, fmt.Errorf("listing the logs of %s: reading the answer: %w", t, err)
	}
	return body.Logs, body.More, nil
}

// end is the offset behind all that is known of a stream, in bytes.
func (c *Client) end(ctx context.Context, id string) (end int64, err error) {
	answer, err := c.get(id).DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("asking for the length of a log: %w", err)
	}
	var state struct{ Stored, Dropped, Missing []string }
	if err := json.Unmarshal(answer, &state); err != nil {
		return 0, fmt.Errorf("asking for the length of a log: reading the answer: %w", err)
	}
	for _, ranges := range [][]string{state.Stored, state.Dropped, state.Missing} {
		for _, r := range ranges {
			_, last, _ := strings.Cut(r, "-")
			n, err := strconv.ParseInt(last, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("asking for the length of a log: its range is %q: %w", r, err)
			}
			end = max(end, n+1)
		}
	}
	return end, nil
}

// A part is some of a stream.
type part struct {
	From, To int64  // offsets in bytes; To is behind the last
	Data     []byte // nil for what was dropped, or never came
	// Times are offsets with the Unix times, in milliseconds, at which the data from
	// there on came.
	Times   [][2]int64
	dropped bool
}

// instead is the line that people see of what isn't there.
func (p part) instead() []byte {
	what := "never came"
	if p.dropped {
		what = "were dropped"
	}
	return fmt.Appendf(nil, "[entrypointer: %d bytes %s]\n", p.To-p.From, what)
}

// read passes on the parts of a stream from an offset on, and says whether it is
// complete with the last of them. Without follow, they end where no more is there.
func (c *Client) read(ctx context.Context, id string, from int64, follow bool, each func(part) error) (complete bool, err error) {
	// The last element is what the API server tells by that it may take long.
	body, err := c.get(id, "log").Param("from", strconv.FormatInt(from, 10)).Param("follow", strconv.FormatBool(follow)).
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
			p := part{dropped: kind == "dropped"}
			if err := json.Unmarshal([]byte(value), &p); err != nil {
				return false, fmt.Errorf("reading an event: %w", err)
			}
			if err := each(p); err != nil {
				return false, err
			}
		}
	}
}
