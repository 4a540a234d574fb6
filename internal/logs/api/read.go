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

// events is the media type of a stream as server-sent events.
const events = "text/event-stream"

// state answers GET /logs/{id}.
func (s reading) state(w http.ResponseWriter, r *http.Request) error {
	id, source, err := s.readable(r)
	if err != nil {
		return err
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	store, release := s.streams.Holding(source.Namespace)
	defer release()
	state, err := store.State(r.Context(), id)
	if err != nil {
		return err
	}
	body := map[string]any{
		"id": id, "name": source.Name, "namespace": source.Namespace, "pod": source.Pod, "container": source.Container,
		"stored": written(state.Stored), "dropped": written(state.Dropped), "missing": written(state.Missing), "complete": state.Complete,
	}
	if state.Complete {
		body["total"] = state.Total
	}
	answer(w, http.StatusOK, body)
	return nil
}

// enter takes a reader's place, unless all are taken.
func (s *Server) enter() (leave func(), err error) {
	select {
	case s.readers <- struct{}{}:
		return func() { <-s.readers }, nil
	default:
		return nil, busy()
	}
}

// written are ranges as a Content-Range has them: with the last byte, not the one after it.
func written(ranges streams.Ranges) []string {
	list := []string{}
	for _, r := range ranges {
		list = append(list, fmt.Sprintf("%d-%d", r.From, r.To-1))
	}
	return list
}

// read answers GET /logs/{id}/data: what there is, and with ?follow=true what
// comes, until the stream is complete.
func (s reading) read(w http.ResponseWriter, r *http.Request) error {
	id, source, err := s.readable(r)
	if err != nil {
		return err
	}
	from, err := offset(r)
	if err != nil {
		return err
	}
	follow, err := follows(r)
	if err != nil {
		return err
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	var out writer = &text{w: w}
	if strings.Contains(r.Header.Get("Accept"), events) {
		out = &eventStream{w: w}
	}
	if r.Method == http.MethodHead {
		out.begin()
		return nil
	}
	if follow {
		s.metrics.following.Inc()
		defer s.metrics.following.Dec()
	}
	c := &copying{Server: s.Server, out: out, connection: http.NewResponseController(w)}
	store, release := s.streams.Holding(source.Namespace)
	defer release()
	reader := store.Reader(id, from)
	defer reader.Close()
	return c.run(r.Context(), reader, follow)
}

func follows(r *http.Request) (bool, error) {
	switch value := r.URL.Query().Get("follow"); value {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, refused(http.StatusBadRequest, fmt.Sprintf("follow is %.100q, but it is true or false", value))
	}
}

// offset is where a client wants to begin: where it says, or after the last event
// that it has seen.
func offset(r *http.Request) (int64, error) {
	for _, value := range []string{r.Header.Get("Last-Event-ID"), r.URL.Query().Get("from")} {
		if value == "" {
			continue
		}
		from, ok := parseOffset(value)
		if !ok {
			return 0, refused(http.StatusBadRequest, fmt.Sprintf("the offset to begin at is %.100q, but it is a number of bytes", value))
		}
		return from, nil
	}
	return 0, nil
}

// A writer shows a stream to a client.
type writer interface {
	begin()
	part(p streams.Part) error
	// alive says that the client is still being answered, if that can be told from
	// the stream.
	alive() (told bool, err error)
	// end says that the stream is complete.
	end() error
}

// A copying is an answer that is under way.
type copying struct {
	*Server
	out        writer
	connection *http.ResponseController
	begun      bool
	last       time.Time // when the client got something
	busy       time.Time // since when there is no memory for more
}

// errCut ends an answer in a way that a client notices.
var errCut = errors.New("the answer is cut off")

// run sends what a reader has. An error before the first part is the answer; after
// it, the answer is cut off.
func (c *copying) run(ctx context.Context, reader *streams.Reader, follow bool) error {
	for {
		part, err := reader.Next(ctx)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, streams.ErrNotYet) && !c.begun {
			return err
		}
		if done, err := c.send(ctx, part, err, follow); err != nil {
			if !errors.Is(err, errCut) && ctx.Err() == nil {
				c.logger.Error("Reading a stream failed", "error", err)
			}
			panic(http.ErrAbortHandler)
		} else if done {
			return nil
		}
	}
}

// send passes on what a reader has said.
func (c *copying) send(ctx context.Context, part streams.Part, said error, follow bool) (done bool, err error) {
	if err := c.connection.SetWriteDeadline(time.Now().Add(c.timing.reader)); err != nil {
		return false, err
	}
	if !c.begun {
		c.out.begin()
		c.begun, c.last = true, time.Now()
	}
	if !errors.Is(said, streams.ErrBusy) {
		c.busy = time.Time{}
	}
	switch {
	case said == nil:
		c.last = time.Now()
		return false, taken(c.out.part(part))
	case errors.Is(said, io.EOF):
		return true, taken(c.out.end())
	case errors.Is(said, streams.ErrBusy):
		if c.busy.IsZero() {
			c.busy = time.Now()
		}
		if time.Since(c.busy) > c.timing.reader {
			return false, errCut
		}
		return false, c.wait(ctx)
	case !errors.Is(said, streams.ErrNotYet):
		return false, said
	case !follow:
		return true, nil
	default:
		return false, c.wait(ctx)
	}
}

// taken is the error of a client that has gone, or takes nothing.
func taken(err error) error {
	if err != nil {
		return errCut
	}
	return nil
}

// wait lets the client have what there is, and waits for more.
func (c *copying) wait(ctx context.Context) error {
	if time.Since(c.last) > c.timing.beat {
		told, err := c.out.alive()
		if err != nil || !told && time.Since(c.last) > c.timing.silence {
			return errCut
		}
		if told {
			c.last = time.Now()
		}
	}
	if err := c.connection.Flush(); err != nil {
		return errCut
	}
	select {
	case <-ctx.Done():
		return errCut
	case <-c.cut:
		return errCut
	case <-time.After(c.timing.follow):
		return nil
	}
}

// text is a stream as people read it.
type text struct{ w http.ResponseWriter }

func (t *text) begin() {
	t.w.Header().Set("Content-Type", "application/octet-stream")
	t.w.WriteHeader(http.StatusOK)
}

func (t *text) part(p streams.Part) error {
	var err error
	switch {
	case p.Data != nil:
		_, err = t.w.Write(p.Data)
	case p.Dropped:
		_, err = fmt.Fprintf(t.w, "\n[entrypointer: %d bytes were dropped]\n", p.Len())
	default:
		_, err = fmt.Fprintf(t.w, "\n[entrypointer: %d bytes never came]\n", p.Len())
	}
	return err
}

func (t *text) alive() (told bool, err error) { return false, nil }

func (t *text) end() error { return nil }

// eventStream is a stream as programs read it: an event for each part, whose ID is
// the offset to go on at.
type eventStream struct{ w http.ResponseWriter }

func (e *eventStream) begin() {
	e.w.Header().Set("Content-Type", events)
	e.w.Header().Set("Cache-Control", "no-store")
	e.w.WriteHeader(http.StatusOK)
}

func (e *eventStream) part(p streams.Part) error {
	if p.Data != nil {
		return e.data(p)
	}
	kind := "missing"
	if p.Dropped {
		kind = dropped
	}
	_, err := fmt.Fprintf(e.w, "event: %s\nid: %d\ndata: {\"from\":%d,\"to\":%d}\n\n", kind, p.To, p.From, p.To)
	return err
}

// data writes bytes as they are encoded: a client that takes them slowly holds no copy.
func (e *eventStream) data(p streams.Part) error {
	marks, err := json.Marshal(pairs(p.Times))
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

// pairs are offsets with the Unix times, in milliseconds, at which bytes from there on
// came.
func pairs(marks []times.Mark) [][2]int64 {
	list := make([][2]int64, 0, len(marks))
	for _, m := range marks {
		list = append(list, [2]int64{m.At, m.Time})
	}
	return list
}

func (e *eventStream) alive() (told bool, err error) {
	_, err = fmt.Fprint(e.w, ":\n\n") // a comment
	return true, err
}

func (e *eventStream) end() error {
	_, err := fmt.Fprint(e.w, "event: end\ndata: {}\n\n")
	return err
}
