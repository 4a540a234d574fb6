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
)

// events is the media type of a stream as server-sent events.
const events = "text/event-stream"

// state answers GET /logs/{id}.
func (s *Server) state(w http.ResponseWriter, r *http.Request) error {
	id, err := s.readable(r)
	if err != nil {
		return err
	}
	source, err := s.sources.of(r.Context(), id)
	if err != nil {
		return err
	}
	state, err := s.streams.State(r.Context(), id)
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
func (s *Server) read(w http.ResponseWriter, r *http.Request) error {
	id, err := s.readable(r)
	if err != nil {
		return err
	}
	from, err := offset(r)
	if err != nil {
		return err
	}
	reader, err := s.streams.Reader(r.Context(), id, from)
	if err != nil {
		return err
	}
	var follow bool
	switch value := r.URL.Query().Get("follow"); value {
	case "", "false":
	case "true":
		follow = true
	default:
		return refused(http.StatusBadRequest, fmt.Sprintf("follow is %.100q, but it is true or false", value))
	}
	var out writer = &text{w: w}
	if strings.Contains(r.Header.Get("Accept"), events) {
		out = &eventStream{w: w}
	}
	return s.copy(r.Context(), out, reader, follow, http.NewResponseController(w))
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
	end(complete bool) error
}

// copy sends what a reader has. An error before the first part is the answer;
// after it, the answer is cut off, so that the client knows.
func (s *Server) copy(ctx context.Context, out writer, reader *streams.Reader, follow bool, connection *http.ResponseController) error {
	begun := false
	begin := func() {
		if !begun {
			out.begin()
			begun = true
		}
	}
	for {
		part, err := reader.Next(ctx)
		switch {
		case err == nil:
			begin()
			if err := out.part(part); err != nil {
				return nil //nolint:nilerr // the client has gone
			}
		case errors.Is(err, io.EOF):
			begin()
			_ = out.end(true)
			return nil
		case errors.Is(err, streams.ErrNotYet) && !follow:
			begin()
			_ = out.end(false)
			return nil
		case errors.Is(err, streams.ErrNotYet):
			begin()
			if err := connection.Flush(); err != nil {
				return nil //nolint:nilerr // the client has gone
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(followEvery):
			}
		case begun:
			s.logger.Error("Reading a stream failed", "error", err)
			panic(http.ErrAbortHandler)
		default:
			return err
		}
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

func (t *text) end(bool) error { return nil }

// eventStream is a stream as programs read it: an event for each part, whose ID is
// the offset to go on at.
type eventStream struct{ w http.ResponseWriter }

func (e *eventStream) begin() {
	e.w.Header().Set("Content-Type", events)
	e.w.Header().Set("Cache-Control", "no-store")
	e.w.WriteHeader(http.StatusOK)
}

func (e *eventStream) part(p streams.Part) error {
	kind := "missing"
	data := map[string]any{"from": p.From, "to": p.To}
	switch {
	case p.Data != nil:
		kind, data["data"] = "data", base64.StdEncoding.EncodeToString(p.Data)
	case p.Dropped:
		kind = dropped
	}
	return e.event(kind, p.To, data)
}

func (e *eventStream) end(complete bool) error {
	if !complete {
		return nil
	}
	_, err := fmt.Fprint(e.w, "event: end\ndata: {}\n\n")
	return err
}

func (e *eventStream) event(kind string, id int64, data any) error {
	document, err := json.Marshal(data)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.w, "event: %s\nid: %d\ndata: %s\n\n", kind, id, document)
	return err
}
