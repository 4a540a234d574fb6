// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// Limits are those of namespaces.
type Limits interface {
	// Room returns an error if a namespace can't store another byte.
	Room(namespace string) error
	// RoomForMarker returns an error if it can't even store that bytes were dropped.
	RoomForMarker(namespace string) error
	// RoomForStream returns an error if it can't have another stream.
	RoomForStream(namespace string) error
	// RoomForMarkedStream returns an error if it can't even have one of whose bytes it is
	// only known that they were dropped.
	RoomForMarkedStream(namespace string) error
	// Took counts what was stored of it, to a stream that there was if id isn't "".
	Took(namespace, id string, bytes, streams int64)
}

// unlimited has room for all.
type unlimited struct{}

func (unlimited) Room(string) error                 { return nil }
func (unlimited) RoomForMarker(string) error        { return nil }
func (unlimited) RoomForStream(string) error        { return nil }
func (unlimited) RoomForMarkedStream(string) error  { return nil }
func (unlimited) Took(string, string, int64, int64) {}

// Limit has the server keep to limits. It is called before the first request.
func (s *Server) Limit(limits Limits) { s.limits = limits }

// surplus says whether a stream is one too many for its namespace, if it is a new one: it
// is made, so that its pod can mark what is refused. Beyond a number of such streams,
// it is an error.
func (s *Server) surplus(ctx context.Context, source streams.Source) (bool, error) {
	if s.limits.RoomForStream(source.Namespace) == nil {
		return false, nil
	}
	noRoom := s.limits.RoomForMarkedStream(source.Namespace)
	if noRoom == nil {
		return true, nil
	}
	exists, err := s.streams.Exists(ctx, source)
	if err == nil && !exists {
		err = full(noRoom, becauseStreams)
	}
	return true, err
}

// roomForData returns an error if the stream of a request can't have another byte.
func (s *Server) roomForData(r *http.Request, namespace string) error {
	if noRoom := s.limits.Room(namespace); noRoom != nil {
		return full(noRoom, becauseQuota)
	}
	source, err := s.sources.of(r.Context(), r.PathValue("id"))
	if err != nil || !source.Surplus {
		return err
	}
	// Others may have been deleted since.
	if noRoom := s.limits.RoomForStream(namespace); noRoom != nil {
		return full(noRoom, becauseStreams)
	}
	return nil
}
