// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A strict namespace has room for so much.
type strict struct{ bytes, streams int64 }

func (s *strict) Room(string) error {
	if s.bytes <= 0 {
		return errors.New("the quota is used up")
	}
	return nil
}

func (s *strict) RoomForMarker(string) error {
	if s.bytes <= -1_000_000 {
		return errors.New("not even for markers")
	}
	return nil
}

func (s *strict) RoomForStream(string) error {
	if s.streams <= 0 {
		return errors.New("there are too many streams")
	}
	return nil
}

func (s *strict) Took(_, _ string, bytes, streams int64) {
	s.bytes -= bytes
	s.streams -= streams
}

func TestANamespaceThatHasReachedItsQuotaMarksAndEndsItsStreams(t *testing.T) {
	s := serve(t, 1)
	limits := &strict{bytes: 4000, streams: 1}
	s.servers[0].Limit(limits)
	path := s.stream("stdout")
	s.accepted("PATCH", path+"/data", "hello", "Content-Range", "bytes 0-4/*")
	require.Less(t, limits.bytes, int64(3000), "it is counted")
	limits.bytes = 0
	for _, got := range []received{
		s.do("PATCH", path+"/data", "token-of-a", "world", "Content-Range", "bytes 5-9/*"),
		s.do("POST", path+"/data", "token-of-a", "world"),
		s.do("POST", "/logs", "token-of-a", `{"name":"stderr"}`),
	} {
		require.Equal(t, http.StatusRequestEntityTooLarge, got.status, got.body)
	}
	require.Equal(t, path, s.stream("stdout"), "one that there is can be asked for again")
	s.accepted("POST", path+"/markers", `{"range":"bytes 5-9/*","markers":["dropped"]}`)
	s.accepted("PATCH", path+"/data", "", "Content-Range", "bytes */10")
	require.Contains(t, s.text(path), "5 bytes were dropped")
	limits.bytes = -1_000_000
	got := s.do("POST", path+"/markers", "token-of-a", `{"range":"bytes 0-4/*","markers":["dropped"]}`)
	require.Equal(t, http.StatusRequestEntityTooLarge, got.status, got.body)
}
