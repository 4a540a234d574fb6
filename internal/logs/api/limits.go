// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// Limits are the limits of namespaces.
type Limits interface {
	// Room returns an error if a namespace can't store another byte.
	Room(namespace string) error
	// RoomForMarker returns an error if a namespace can't store another marker.
	RoomForMarker(namespace string) error
	// RoomForStream returns an error if a namespace can't have another stream.
	RoomForStream(namespace string) error
	// RoomForMarkedStream returns an error if a namespace can't even have another surplus
	// stream, which takes markers but no bytes.
	RoomForMarkedStream(namespace string) error
	// Took counts bytes and streams that a namespace has stored. The id is "" for new
	// streams.
	Took(namespace, id string, bytes, streams int64)
}

// unlimited is the absence of limits.
type unlimited struct{}

func (unlimited) Room(string) error                 { return nil }
func (unlimited) RoomForMarker(string) error        { return nil }
func (unlimited) RoomForStream(string) error        { return nil }
func (unlimited) RoomForMarkedStream(string) error  { return nil }
func (unlimited) Took(string, string, int64, int64) {}

// Limit sets the limits. It must be called before the first request.
func (s *Server) Limit(limits Limits) { s.limits = limits }

// surplus reports whether a stream, if it is new, is beyond its namespace's limit. Such a
// surplus stream is created so that its pod can mark the refused bytes. Beyond
// RoomForMarkedStream, it is an error.
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
		err = quotaProblem(noRoom, reasonStreams)
	}
	return true, err
}

// roomForData returns an error if the stream of a request can't store another byte.
func (s *Server) roomForData(r *http.Request, namespace string) error {
	if noRoom := s.limits.Room(namespace); noRoom != nil {
		return quotaProblem(noRoom, reasonQuota)
	}
	source, err := s.sources.get(r.Context(), r.PathValue("id"))
	if err != nil || !source.Surplus {
		return err
	}
	// Streams may have been deleted since this one was created.
	if noRoom := s.limits.RoomForStream(namespace); noRoom != nil {
		return quotaProblem(noRoom, reasonStreams)
	}
	return nil
}
