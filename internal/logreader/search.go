// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/internal/version"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
)

// A Search says which lines the log service looks for.
type Search struct {
	Expression string // RE2
	IgnoreCase bool
	// Before and After are how many lines around each are printed.
	Before, After int
	// Limit bounds the lines that match, of each request.
	Limit int
}

// ErrNothingFound says that no line matches.
var ErrNothingFound = errors.New("no line matches")

// Search prints the lines of a target that match: of one container after another, the ones
// that have begun last first. Without a target and a selector, it searches all of the namespace.
// It returns ErrNothingFound if everything was searched.
func (c *Client) Search(ctx context.Context, o Options, q Search) error {
	requests, err := c.searchRequests(ctx, o)
	if err != nil {
		return err
	}
	s := &searching{Client: c, Options: o, query: q}
	if o.Printer.Prefix == nil {
		o.Printer.Prefix = new(o.Target.Name != target.Pod || o.Container == "")
	}
	for _, request := range requests {
		if err := s.run(ctx, request); err != nil {
			return err
		}
	}
	return s.result(ctx)
}

// searchRequests returns the requests for a target: one, or one for each of the pods with labels
// that the log service doesn't keep.
func (c *Client) searchRequests(ctx context.Context, o Options) ([]*rest.Request, error) {
	request := c.get("search", "log")
	switch {
	case o.Selector == nil && o.Target.Of == "":
		return []*rest.Request{request}, nil
	case o.Selector == nil && o.Target.LogLabel() != "":
		return []*rest.Request{request.Param("labelSelector", o.Target.LogLabel()+"="+o.Target.Of)}, nil
	case o.Selector == nil:
		return []*rest.Request{request.Param("pod", o.Target.Of)}, nil
	}
	if key, _ := loglabels.Required(o.Selector); key != "" {
		return []*rest.Request{request.Param("labelSelector", o.Selector.String())}, nil
	}
	pods, err := c.selected(ctx, o)
	requests := make([]*rest.Request, 0, len(pods))
	for _, p := range pods {
		requests = append(requests, c.get("search", "log").Param("pod", p.Metadata.Name))
	}
	return requests, err
}

// A searching is a Search that runs.
type searching struct {
	*Client
	Options
	query Search
	found *foundLines // nil unless lines are to be deleted

	sink    *sink // of the stream of the next line
	last    *sink // of that of the last one
	to      int64 // the offset behind that
	total   searchEnd
	limited bool
}

// A searchEnd is what the log service says at the end.
type searchEnd struct {
	Complete                         bool
	Reason                           string
	Found, Streams                   int
	Unread                           int
	Bytes, Dropped, Deleted, Missing int64
}

// run prints the response to a request.
func (s *searching) run(ctx context.Context, request *rest.Request) error {
	for name, value := range map[string]string{
		"grep": s.query.Expression, "ignoreCase": strconv.FormatBool(s.query.IgnoreCase), "before": strconv.Itoa(s.query.Before), "after": strconv.Itoa(s.query.After),
		"limit": strconv.Itoa(s.query.Limit), "container": s.Container, "stream": s.Stream,
	} {
		request = request.Param(name, value)
	}
	if s.Events {
		request = request.Param("stream", events)
	}
	request = s.Printer.parameters(request, "since", "until")
	body, err := request.Stream(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: the cluster has no log service that searches: the operator installs or upgrades it with %s", s.what(), version.Applies(version.Own(), "logs"))
	case err != nil:
		return s.explainList(err, s.what(), s.Target.Name == target.Pod)
	}
	defer body.Close()
	err = s.print(bufio.NewReader(body))
	return errors.Join(err, s.Printer.flush())
}

// what names what is attempted.
func (s *searching) what() string {
	if s.Selector == nil && s.Target.Of == "" {
		return fmt.Sprintf("searching the logs of namespace %q", s.Namespace)
	}
	return fmt.Sprintf("searching the logs of %s in namespace %q", s.whose(), s.Namespace)
}

// print prints the events of a response.
func (s *searching) print(lines *bufio.Reader) error {
	kind := ""
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("%s: the response ends before the search: %w", s.what(), err)
		}
		key, value, _ := bytes.Cut(bytes.TrimSuffix(text, []byte("\n")), []byte(": "))
		switch {
		case string(key) == "event":
			kind = string(value)
		case string(key) == "data":
			if err := s.event(kind, value); err != nil {
				return err
			}
			if kind == "end" {
				return nil
			}
		}
	}
}

// event prints an event.
func (s *searching) event(kind string, data []byte) error {
	var line struct {
		From, To, Time int64
		Cut            bool
		Text           []byte
	}
	var to any
	var stream Stream
	var end searchEnd
	switch kind {
	case "stream":
		to = &stream
	case "line":
		to = &line
	case "end":
		to = &end
	default:
		to = &struct{}{}
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("%s: reading the response: %w", s.what(), err)
	}
	switch kind {
	case "stream":
		s.sink = s.Printer.sink(stream)
	case "unread":
		if s.sink == nil {
			return fmt.Errorf("%s: reading the response: it has an event of no stream", s.what())
		}
		_, _ = fmt.Fprintf(s.Warnings, "A part of %s can't be read.\n", s.sink.of)
	case "line":
		if s.found != nil && s.sink != nil {
			s.found.add(s.sink.of, line.From, line.To)
		}
		if s.found != nil && !s.found.print {
			return nil
		}
		return s.line(line.Text, line.From, line.To, line.Time, line.Cut)
	case "end":
		s.add(end)
	}
	return nil
}

// line prints a line, and between lines that aren't neighbours what grep prints there.
func (s *searching) line(text []byte, from, to, printed int64, isCut bool) error {
	if s.sink == nil {
		return fmt.Errorf("%s: reading the response: it has a line of no stream", s.what())
	}
	isNext := s.last == s.sink && s.to == from
	if s.query.Before+s.query.After > 0 && s.last != nil && !isNext && !s.Printer.JSON {
		s.Printer.separate()
	}
	s.last, s.to = s.sink, to
	if isCut {
		text = fmt.Appendf(text, " "+noticeBegins+"%d more bytes]", to-from-int64(len(text)))
	}
	return s.sink.print(line{text: append(text, '\n'), time: printed})
}

// add adds the end of a response to those before.
func (s *searching) add(end searchEnd) {
	t := &s.total
	t.Found, t.Streams, t.Unread = t.Found+end.Found, t.Streams+end.Streams, t.Unread+end.Unread
	t.Dropped, t.Deleted, t.Missing = t.Dropped+end.Dropped, t.Deleted+end.Deleted, t.Missing+end.Missing
	if end.Reason == "limit" {
		s.limited = true
	} else if !end.Complete {
		t.Reason = end.Reason
	}
}

// whyIncomplete are the reasons for the end of a search, and what to do.
var whyIncomplete = map[string]string{
	"bytes":    "there is more than the log service searches at a time: name an object, a container or a time by --since",
	"time":     "it takes longer than the log service searches: name an object, a container or a time by --since",
	"streams":  "the namespace has more logs than the log service searches: name an object, or labels by --selector",
	"unread":   "some logs can't be read; warnings have named them: try again",
	"stopping": "the log service is being stopped: try again",
	"failed":   "the log service can't do that at the moment: try again",
}

// result returns the error of the whole search, and warns about what it couldn't see.
func (s *searching) result(ctx context.Context) error {
	t := s.total
	lost := []string{}
	for _, p := range []struct {
		bytes int64
		what  string
	}{{t.Dropped, "were dropped"}, {t.Deleted, "were deleted by retention"}, {t.Missing, "are missing"}} {
		if p.bytes > 0 {
			lost = append(lost, fmt.Sprintf("%d bytes %s", p.bytes, p.what))
		}
	}
	if len(lost) > 0 {
		_, _ = fmt.Fprintf(s.Warnings, "Of what was searched, %s.\n", strings.Join(lost, ", "))
	}
	switch {
	case t.Reason != "":
		why, known := whyIncomplete[t.Reason]
		if !known {
			why = strconv.Quote(t.Reason)
		}
		return fmt.Errorf("%s: the search isn't complete: %s", s.what(), why)
	case s.limited:
		_, _ = fmt.Fprintf(s.Warnings, "There may be more lines: the search has ended after %d; --limit sets another number.\n", s.query.Limit)
		return nil
	case t.Found > 0:
		return nil
	case t.Streams == 0 && (s.Target.Of != "" || s.Selector != nil) && s.Printer.Span == (Span{}):
		return s.noLogsError(ctx, s.Options)
	default:
		return ErrNothingFound
	}
}
