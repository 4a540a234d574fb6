// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/entrypointer/entrypointer/internal/logs/retries"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// Limits are the limits of namespaces.
type Limits interface {
	// CheckBytes returns an error if a namespace can't store another byte.
	CheckBytes(namespace string) error
	// CheckMarker returns an error if a namespace can't store another marker.
	CheckMarker(namespace string) error
	// CheckStream returns an error if a namespace can't have another stream.
	CheckStream(namespace string) error
	// CheckSurplusStream returns an error if a namespace can't even have another surplus
	// stream, which takes markers but no bytes.
	CheckSurplusStream(namespace string) error
	// Linger returns how long the containers of a namespace may wait between two parts of a
	// stream that nobody follows.
	Linger(namespace string) time.Duration
	// RecordUsage counts bytes and streams that a namespace has stored. The id is "" if
	// it isn't known.
	RecordUsage(namespace, id string, bytes, streams int64)
	// RecordStream counts a new stream: the bytes of its meta, and those of its entries in the
	// index.
	RecordStream(namespace, id string, meta, index int64)
}

// unlimited is the absence of limits.
type unlimited struct{}

func (unlimited) CheckBytes(string) error                  { return nil }
func (unlimited) CheckMarker(string) error                 { return nil }
func (unlimited) CheckStream(string) error                 { return nil }
func (unlimited) CheckSurplusStream(string) error          { return nil }
func (unlimited) Linger(string) time.Duration              { return 0 }
func (unlimited) RecordUsage(string, string, int64, int64) {}

// RecordStream implements Limits.
func (unlimited) RecordStream(string, string, int64, int64) {}

// Limit sets the limits. It must be called before the first request.
func (s *Server) Limit(limits Limits) { s.limits = limits }

// surplus reports whether a stream, if it is new, is beyond its namespace's limit. Such a
// surplus stream is created so that its pod can mark the refused bytes: a container that
// gets no stream keeps its output, asks again, and waits at its end, for 75 s if it is a
// step or a Job. Beyond CheckSurplusStream, it is an error.
func (s *Server) surplus(ctx context.Context, source streams.Source) (bool, error) {
	if s.limits.CheckStream(source.Namespace) == nil {
		return false, nil
	}
	full := s.limits.CheckSurplusStream(source.Namespace)
	if full == nil {
		return true, nil
	}
	exists, err := s.streams.Exists(ctx, source)
	if err == nil && !exists {
		err = quotaProblem(full, reasonStreams)
	}
	return true, err
}

const (
	// eventsName is the name of the stream that says what happens to a container.
	eventsName = "events"
	// maxEvents is the share of such a stream beyond the limits, in bytes before compression,
	// so that the reason of a refusal can be read after the pod is gone. All of them together
	// are bounded as markers are.
	maxEvents = 64 << 10
)

// checkData returns an error if a stream can't store the bytes of a request.
func (s *Server) checkData(r *http.Request, source streams.Source) error {
	at, err := parseContentRange(r.Header.Get("Content-Range"))
	if r.Method == http.MethodPatch && err == nil && source.Name == eventsName && at.To <= maxEvents {
		return s.checkMarker(source.Namespace)
	}
	if full := s.limits.CheckBytes(source.Namespace); full != nil {
		return quotaProblem(full, reasonQuota)
	}
	if !source.Surplus {
		return nil
	}
	// Streams may have been deleted since this one was created.
	if full := s.limits.CheckStream(source.Namespace); full != nil {
		return quotaProblem(full, reasonStreams)
	}
	return nil
}

// checkMarker returns an error if a namespace can't store another marker.
func (s *Server) checkMarker(namespace string) error {
	if full := s.limits.CheckMarker(namespace); full != nil {
		return quotaProblem(full, reasonQuota)
	}
	return nil
}

// accept answers a request whose bytes are durable. If nobody follows the stream, the
// client may wait until it sends more.
func (s *Server) accept(w http.ResponseWriter, r *http.Request, to target) {
	if linger := s.limits.Linger(to.source.Namespace); linger >= time.Second {
		// If followers aren't known, there may be one.
		if isFollowed, err := s.streams.IsFollowed(r.Context(), to.id); err == nil && !isFollowed {
			w.Header().Set(retries.LingerHeader, strconv.Itoa(int(linger/time.Second)))
		}
	}
	w.WriteHeader(http.StatusAccepted)
}
