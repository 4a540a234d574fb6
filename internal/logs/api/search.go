// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/grep"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

const (
	// maxSearches bounds the searches that run, each with streams.SearchMemory. The others are
	// the shares of a namespace and of a user.
	maxSearches, maxSearchesNamespace, maxSearchesUser = 4, 2, 2
	// maxAround bounds the lines before a line that matches, and those after it.
	maxAround = 100
	// maxFindings bounds the lines that match, usualFindings where a request has no bound.
	maxFindings, usualFindings = 100_000, 1000
	// maxStreamName bounds the names of containers and streams, in bytes, as for writers.
	maxStreamName = 253
	// scannedAtOnce is what is scanned until a search looks whether it is to end, in bytes.
	scannedAtOnce = 32 << 10
)

// searchBounds bound a search.
type searchBounds struct {
	bytes int64 // before compression
	time  time.Duration
}

var defaultBounds = searchBounds{bytes: 64 << 30, time: 10 * time.Minute}

// Why a search ends before it has read everything.
var (
	errLimit    = errors.New("limit")
	errBytes    = errors.New("bytes")
	errTime     = errors.New("time")
	errStopping = errors.New("stopping")
)

// A searchRequest says what to search for, and where.
type searchRequest struct {
	streams.PodsQuery

	expression        *grep.Expression
	container, stream string // "" for all; of streams, all but the events
	before, after     int
	limit             int
}

func parseSearch(r *http.Request) (q searchRequest, err error) {
	if q.PodsQuery, err = parsePods(r); err != nil {
		return q, err
	}
	values := r.URL.Query()
	ignoreCase, err := strconv.ParseBool(cmp.Or(values.Get("ignoreCase"), "false"))
	if err != nil {
		return q, badParameter("ignoreCase", values.Get("ignoreCase"), "use true or false")
	}
	if values.Get("grep") == "" {
		return q, badParameter("grep", "", "use a regular expression (RE2)")
	}
	if q.expression, err = grep.Compile(values.Get("grep"), ignoreCase); err != nil {
		return q, badParameter("grep", values.Get("grep"), err.Error())
	}
	for name, to := range map[string]*string{"container": &q.container, "stream": &q.stream} {
		if *to = values.Get(name); len(*to) > maxStreamName {
			return q, badParameter(name, *to, fmt.Sprintf("use a name of %d bytes at most", maxStreamName))
		}
	}
	q.limit = usualFindings
	for name, number := range map[string]struct {
		to          *int
		least, most int
	}{"before": {&q.before, 0, maxAround}, "after": {&q.after, 0, maxAround}, "limit": {&q.limit, 1, maxFindings}} {
		if err := parseNumber(values, name, number.to, number.least, number.most); err != nil {
			return q, err
		}
	}
	return q, nil
}

func parseNumber(values url.Values, name string, to *int, least, most int) (err error) {
	text := values.Get(name)
	if text == "" {
		return nil
	}
	if *to, err = strconv.Atoi(text); err != nil || *to < least || *to > most {
		return badParameter(name, text, fmt.Sprintf("use a number from %d to %d", least, most))
	}
	return nil
}

// selects reports whether a stream is searched.
func (q searchRequest) selects(l streams.Listed) bool {
	isAsked := l.Name == q.stream || q.stream == "" && l.Name != eventsName
	return isAsked && (q.container == "" || l.Container == q.container)
}

// search answers GET /search with the lines that match. As for a list, the user must be
// allowed to read all pods of the namespace, unless one is named.
func (s readAPI) search(w http.ResponseWriter, r *http.Request) error {
	user, err := s.user(r)
	if err != nil {
		return err
	}
	q, err := parseSearch(r)
	if err != nil {
		return err
	}
	if err := s.authenticator.MayRead(r.Context(), user, q.Namespace, q.Pod); err != nil {
		return err
	}
	keep, err := s.keepReadable(r, user, &q.PodsQuery)
	if err != nil {
		return err
	}
	if !s.searches.TryAcquire(1, q.Namespace, user.Name) {
		return busyProblem()
	}
	defer s.searches.Release(1, q.Namespace, user.Name)
	store, release := s.streams.WithMemoryHold(q.Namespace)
	defer release()
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.bounds.time, errTime)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := &searchWriter{w: w, connection: http.NewResponseController(w), timing: s.timing}
	defer out.keepAlive(ctx, s.stopFollowing, stop)()

	f := newFinder(ctx, s.Server, q, out)
	more, err := store.Search(ctx, streams.SearchQuery{
		Namespace: q.Namespace, Pod: q.Pod, Selector: q.Selector, NotBefore: q.NotBefore, Span: q.Span,
		Keep: func(l streams.Listed) bool { return q.selects(l) && keep(l) },
	}, f)
	if r.Context().Err() != nil || errors.Is(err, errCutOff) {
		return nil // the client has gone
	}
	return s.endSearch(f, more, err)
}

// endSearch ends the response to a search.
func (s readAPI) endSearch(f *finder, more bool, err error) error {
	switch {
	case errors.Is(err, errLimit), errors.Is(err, errBytes), errors.Is(err, errTime), errors.Is(err, errStopping):
		f.end.Reason = firstOf(err, errLimit, errBytes, errTime, errStopping)
	case err != nil && !f.out.hasBegun():
		return err
	case err != nil:
		s.logger.Error("A search failed", "error", err)
		f.end.Reason = "failed"
	case f.end.Unread > 0:
		f.end.Reason = "unread"
	case more:
		f.end.Reason = "streams"
	}
	f.end.Complete = f.end.Reason == ""
	_ = f.out.event("end", f.end) // fails if the client has disconnected
	return nil
}

// firstOf returns the text of the first error that another one is.
func firstOf(err error, of ...error) string {
	for _, known := range of {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return ""
}
