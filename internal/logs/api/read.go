// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/logs/times"
)

// eventStreamType is the media type of server-sent events.
const eventStreamType = "text/event-stream"

// state answers GET /logs/{id}.
func (s readAPI) state(w http.ResponseWriter, r *http.Request) error {
	id, source, user, err := s.readable(r)
	if err != nil {
		return err
	}
	leave, err := s.enter(source.Namespace, user)
	if err != nil {
		return err
	}
	defer leave()
	store, release := s.streams.WithMemoryHold(source.Namespace)
	defer release()
	state, err := store.State(r.Context(), id)
	if err != nil {
		return err
	}
	body := map[string]any{
		"id": id, "name": source.Name, "namespace": source.Namespace, "pod": source.Pod, "container": source.Container,
		"stored": formatRanges(state.Stored), "dropped": formatRanges(state.Dropped), "deleted": formatRanges(state.Deleted), "missing": formatRanges(state.Missing), "complete": state.Complete,
	}
	if state.Complete {
		body["total"] = state.Total
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

// enter takes one of maxReaders places until leave is called.
func (s *Server) enter(namespace string, user User) (leave func(), err error) {
	if !s.readers.TryAcquire(1, namespace, user.Name) {
		return nil, busyProblem()
	}
	return func() { s.readers.Release(1, namespace, user.Name) }, nil
}

// formatRanges formats ranges as a Content-Range does: with the last byte, rather than
// the one after it.
func formatRanges(ranges streams.Ranges) []string {
	list := []string{}
	for _, r := range ranges {
		list = append(list, fmt.Sprintf("%d-%d", r.From, r.To-1))
	}
	return list
}

// read answers GET /logs/{id}/data: with all bytes so far, or those of a span of time, and
// with ?follow=true until the stream is complete.
func (s readAPI) read(w http.ResponseWriter, r *http.Request) error {
	id, source, user, err := s.readable(r)
	if err != nil {
		return err
	}
	from, err := startOffset(r)
	if err != nil {
		return err
	}
	follow, err := parseFollow(r)
	if err != nil {
		return err
	}
	span, err := parseSpan(r, follow)
	if err != nil {
		return err
	}
	leave, err := s.enter(source.Namespace, user)
	if err != nil {
		return err
	}
	defer leave()
	var out streamWriter = &textWriter{w: w}
	if strings.Contains(r.Header.Get("Accept"), eventStreamType) {
		out = &eventWriter{w: w}
	}
	if r.Method == http.MethodHead {
		out.begin()
		return nil
	}
	if follow {
		s.metrics.following.Inc()
		defer s.metrics.following.Dec()
	}
	c := &transfer{Server: s.Server, id: id, out: out, connection: http.NewResponseController(w)}
	store, release := s.streams.WithMemoryHold(source.Namespace)
	defer release()
	open := store.Reader
	if follow {
		open = store.Follower
	}
	reader := open(id, from)
	defer reader.Close()
	if err := reader.Seek(r.Context(), span); err != nil {
		return err
	}
	return c.run(r.Context(), reader, follow)
}

func parseFollow(r *http.Request) (bool, error) {
	switch value := r.URL.Query().Get("follow"); value {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, newProblem(http.StatusBadRequest, fmt.Sprintf("follow is %.100q: use true or false", value))
	}
}

// parseSpan returns the time of the lines that are asked for. sinceTime is a parameter of
// Kubernetes' own logs.
func parseSpan(r *http.Request, follow bool) (span streams.Span, err error) {
	values := r.URL.Query()
	if span.Since, err = parseTime(values, "sinceTime"); err != nil {
		return span, err
	}
	if span.Until, err = parseTime(values, "untilTime"); err != nil {
		return span, err
	}
	switch {
	case span.Until.IsZero():
		return span, nil
	case follow:
		return span, newProblem(http.StatusBadRequest, "follow and untilTime are both set: use one of them, because following ends with the stream")
	case !span.Since.Before(span.Until):
		return span, newProblem(http.StatusBadRequest, "untilTime isn't after sinceTime: use a later time")
	default:
		return span, nil
	}
}

// startOffset returns the offset to begin at: that of the last event that the client has
// received, or of the query.
func startOffset(r *http.Request) (int64, error) {
	for _, value := range []string{r.Header.Get("Last-Event-ID"), r.URL.Query().Get("from")} {
		if value == "" {
			continue
		}
		from, ok := parseOffset(value)
		if !ok {
			return 0, newProblem(http.StatusBadRequest, fmt.Sprintf("the offset to begin at is %.100q: use a number of bytes", value))
		}
		return from, nil
	}
	return 0, nil
}

// A streamWriter writes a stream to a client in a format.
type streamWriter interface {
	begin()
	part(p streams.Part) error
	// alive writes a keep-alive if the format has one, and reports whether it did.
	alive() (told bool, err error)
	// end says that the stream is complete.
	end() error
}

// A transfer is a response with a stream.
type transfer struct {
	*Server
	id         string // of the stream
	out        streamWriter
	connection *http.ResponseController
	begun      bool
	lastSent   time.Time     // when the client was last sent something
	busySince  time.Time     // since when memory is short, zero if it isn't
	pause      time.Duration // before the last look for more
}

// errCutOff ends a response so that the client notices that it is incomplete.
var errCutOff = errors.New("the answer is cut off")

// run sends the parts of a reader. An error before the first part becomes the response.
// After it, an error cuts the response off.
func (c *transfer) run(ctx context.Context, reader *streams.Reader, follow bool) error {
	for {
		part, err := reader.Next(ctx)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, streams.ErrNotYet) && !c.begun {
			return err
		}
		if done, err := c.send(ctx, part, err, follow); err != nil {
			if !errors.Is(err, errCutOff) && ctx.Err() == nil {
				c.logger.Error("Reading a stream failed", "error", err)
			}
			panic(http.ErrAbortHandler)
		} else if done {
			return nil
		}
	}
}

// send sends a part, or acts on the error of Reader.Next.
func (c *transfer) send(ctx context.Context, part streams.Part, said error, follow bool) (done bool, err error) {
	if err := c.connection.SetWriteDeadline(time.Now().Add(c.timing.reader)); err != nil {
		return false, err
	}
	if !c.begun {
		c.out.begin()
		c.begun, c.lastSent = true, time.Now()
	}
	if !errors.Is(said, streams.ErrBusy) {
		c.busySince = time.Time{}
	}
	switch {
	case said == nil:
		c.lastSent, c.pause = time.Now(), 0
		return false, cutOffIfFailed(c.out.part(part))
	case errors.Is(said, io.EOF):
		return true, cutOffIfFailed(c.out.end())
	case errors.Is(said, streams.ErrBusy):
		if c.busySince.IsZero() {
			c.busySince = time.Now()
		}
		if time.Since(c.busySince) > c.timing.reader {
			return false, errCutOff
		}
		return false, c.waitForMore(ctx)
	case !errors.Is(said, streams.ErrNotYet):
		return false, said
	case !follow:
		return true, nil
	default:
		if err := c.streams.NoteFollower(ctx, c.id); err != nil { // the writer lingers
			c.logger.Warn("A follower may see its stream late", "error", err)
		}
		return false, c.waitForMore(ctx)
	}
}

// cutOffIfFailed returns errCutOff for an error of the connection.
func cutOffIfFailed(err error) error {
	if err != nil {
		return errCutOff
	}
	return nil
}

// waitForMore flushes the response, and waits until the stream is to be read again.
func (c *transfer) waitForMore(ctx context.Context) error {
	if time.Since(c.lastSent) > c.timing.beat {
		told, err := c.out.alive()
		if err != nil || !told && time.Since(c.lastSent) > c.timing.silence {
			return errCutOff
		}
		if told {
			c.lastSent = time.Now()
		}
	}
	if err := c.connection.Flush(); err != nil {
		return errCutOff
	}
	select {
	case <-ctx.Done():
		return errCutOff
	case <-c.stopFollowing:
		return errCutOff
	case <-time.After(c.nextPause()):
		return nil
	}
}

// nextPause returns the pause before the next look: each look that finds nothing makes it
// longer by half.
func (c *transfer) nextPause() time.Duration {
	c.pause = min(max(c.timing.follow, c.pause+c.pause/2), max(c.timing.follow, c.timing.idle))
	return c.pause
}

// A textWriter writes a stream as plain bytes, with a line in the place of each gap.
type textWriter struct{ w http.ResponseWriter }

func (t *textWriter) begin() {
	t.w.Header().Set("Content-Type", "application/octet-stream")
	t.w.WriteHeader(http.StatusOK)
}

func (t *textWriter) part(p streams.Part) error {
	var err error
	switch {
	case p.Data != nil:
		_, err = t.w.Write(p.Data)
	case p.Dropped:
		_, err = fmt.Fprintf(t.w, "\n[entrypointer: %d bytes were dropped]\n", p.Len())
	case p.Deleted:
		_, err = fmt.Fprintf(t.w, "\n[entrypointer: %d bytes were deleted by retention]\n", p.Len())
	default:
		_, err = fmt.Fprintf(t.w, "\n[entrypointer: %d bytes are missing]\n", p.Len())
	}
	return err
}

func (t *textWriter) alive() (told bool, err error) { return false, nil }

func (t *textWriter) end() error { return nil }

// An eventWriter writes a stream as server-sent events, one for each part. The ID of an
// event is the offset at which to continue.
type eventWriter struct{ w http.ResponseWriter }

func (e *eventWriter) begin() {
	e.w.Header().Set("Content-Type", eventStreamType)
	e.w.Header().Set("Cache-Control", "no-store")
	e.w.WriteHeader(http.StatusOK)
}

func (e *eventWriter) part(p streams.Part) error {
	if p.Data != nil {
		return e.data(p)
	}
	kind := "missing"
	switch {
	case p.Dropped:
		kind = droppedMarker
	case p.Deleted:
		kind = "deleted"
	}
	_, err := fmt.Fprintf(e.w, "event: %s\nid: %d\ndata: {\"from\":%d,\"to\":%d}\n\n", kind, p.To, p.From, p.To)
	return err
}

// data writes bytes while it encodes them, so that a slow client holds no encoded copy.
func (e *eventWriter) data(p streams.Part) error {
	marks, err := json.Marshal(timePairs(p.Times))
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(e.w, "event: data\nid: %d\ndata: {\"data\":\"", p.To); err != nil {
		return err
	}
	encoder := base64.NewEncoder(base64.StdEncoding, e.w)
	if _, err := encoder.Write(p.Data); err != nil {
		return err
	}
	if err := encoder.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.w, "\",\"from\":%d,\"times\":%s,\"to\":%d}\n\n", p.From, marks, p.To)
	return err
}

// timePairs returns marks as pairs of an offset and the Unix time, in milliseconds, at
// which the bytes from there on were printed.
func timePairs(marks []times.Mark) [][2]int64 {
	list := make([][2]int64, 0, len(marks))
	for _, m := range marks {
		list = append(list, [2]int64{m.At, m.Time})
	}
	return list
}

func (e *eventWriter) alive() (told bool, err error) {
	_, err = fmt.Fprint(e.w, ":\n\n") // a comment
	return true, err
}

func (e *eventWriter) end() error {
	_, err := fmt.Fprint(e.w, "event: end\ndata: {}\n\n")
	return err
}
