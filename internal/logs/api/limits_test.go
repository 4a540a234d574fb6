// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// strict has room for some bytes and streams.
type strict struct {
	bytes, streams int64
	linger         time.Duration
}

func (s *strict) Linger(string) time.Duration { return s.linger }

func (s *strict) CheckBytes(string) error {
	if s.bytes <= 0 {
		return errors.New("the quota is used up")
	}
	return nil
}

func (s *strict) CheckMarker(string) error {
	if s.bytes <= -1_000_000 {
		return errors.New("not even for markers")
	}
	return nil
}

func (s *strict) CheckStream(string) error {
	if s.streams <= 0 {
		return errors.New("there are too many streams")
	}
	return nil
}

func (s *strict) CheckSurplusStream(string) error {
	if s.streams <= -2 {
		return errors.New("there are far too many streams")
	}
	return nil
}

func (s *strict) RecordUsage(_, _ string, bytes, streams int64) {
	s.bytes -= bytes
	s.streams -= streams
}

func (s *strict) RecordStream(namespace, id string, meta, index int64) {
	s.RecordUsage(namespace, id, meta+index, 1)
}

func TestANamespaceThatHasReachedItsQuotaMarksAndEndsItsStreams(t *testing.T) {
	s := serve(t, 1)
	limits := &strict{bytes: 4000, streams: 1}
	s.servers[0].Limit(limits)
	path := s.stream("stdout")
	s.accepted("PATCH", path+"/data", "hello", "Content-Range", "bytes 0-4/*")
	require.Less(t, limits.bytes, int64(3000), "the stored bytes are counted")
	limits.bytes = 0
	for _, got := range []received{
		s.do("PATCH", path+"/data", "token-of-a", "world", "Content-Range", "bytes 5-9/*"),
		s.do("POST", path+"/data", "token-of-a", "world"),
	} {
		require.Equal(t, http.StatusRequestEntityTooLarge, got.status, got.body)
	}
	require.Equal(t, path, s.stream("stdout"), "an existing stream can be found again")
	s.accepted("POST", path+"/markers", `{"range":"bytes 5-9/*","markers":["dropped"]}`)
	s.accepted("PATCH", path+"/data", "", "Content-Range", "bytes */10")
	require.Contains(t, s.text(path), "5 bytes were dropped")
	limits.bytes = -1_000_000
	got := s.do("POST", path+"/markers", "token-of-a", `{"range":"bytes 0-4/*","markers":["dropped"]}`)
	require.Equal(t, http.StatusRequestEntityTooLarge, got.status, got.body)
}

func TestASurplusStreamIsMarked(t *testing.T) {
	s := serve(t, 1)
	limits := &strict{bytes: 1_000_000, streams: 1}
	s.servers[0].Limit(limits)
	first := s.stream("first")
	marked := s.stream("second")
	s.accepted("PATCH", first+"/data", "hello", "Content-Range", "bytes 0-4/*")
	for _, got := range []received{
		s.do("PATCH", marked+"/data", "token-of-a", "hello", "Content-Range", "bytes 0-4/*"),
		s.do("POST", marked+"/data", "token-of-a", "hello"),
	} {
		require.Equal(t, http.StatusRequestEntityTooLarge, got.status, got.body)
		require.Contains(t, got.body, "there are too many streams")
	}
	require.InDelta(t, 2, testutil.ToFloat64(s.servers[0].metrics.refused.WithLabelValues(reasonStreams)), 0)
	require.Equal(t, marked, s.stream("second"))
	s.accepted("POST", marked+"/markers", `{"range":"bytes 0-4/*","markers":["dropped"]}`)

	limits.streams = 1 // others were deleted
	s.accepted("PATCH", marked+"/data", "world", "Content-Range", "bytes 5-9/*")
	s.accepted("PATCH", marked+"/data", "", "Content-Range", "bytes */10")
	require.Contains(t, s.text(marked), "5 bytes were dropped")
	require.Contains(t, s.text(marked), "world")

	limits.streams = -2
	got := s.do("POST", "/logs", "token-of-a", `{"name":"third"}`)
	require.Equal(t, http.StatusRequestEntityTooLarge, got.status, got.body)
	require.Contains(t, got.body, "far too many")
	require.Equal(t, first, s.stream("first"))
	require.Equal(t, marked, s.stream("second"))
}

func TestWhyOutputIsRefusedIsStoredBeyondTheLimits(t *testing.T) {
	s := serve(t, 1)
	limits := &strict{bytes: 1_000_000, streams: 1}
	s.servers[0].Limit(limits)
	first, surplus := s.stream("stdout"), s.stream("events")
	limits.bytes = 0
	got := s.do("PATCH", first+"/data", "token-of-a", "hello", "Content-Range", "bytes 0-4/*")
	require.Equal(t, http.StatusRequestEntityTooLarge, got.status, got.body)
	s.accepted("PATCH", surplus+"/data", "why", "Content-Range", "bytes 0-2/*")
	require.Equal(t, "why", s.text(surplus))
	for name, got := range map[string]received{
		"its share is small":                       s.do("PATCH", surplus+"/data", "token-of-a", "more", "Content-Range", fmt.Sprintf("bytes %d-%d/*", maxEvents-3, maxEvents)),
		"an append has no offset, and so no share": s.do("POST", surplus+"/data", "token-of-a", "more"),
		"an append whose header claims one":        s.do("POST", surplus+"/data", "token-of-a", "more", "Content-Range", "bytes 0-0/*"),
	} {
		require.Equal(t, http.StatusRequestEntityTooLarge, got.status, name)
	}
	limits.bytes = -1_000_000
	got = s.do("PATCH", surplus+"/data", "token-of-a", "why", "Content-Range", "bytes 3-5/*")
	require.Equal(t, http.StatusRequestEntityTooLarge, got.status, "the share of the namespace is used up")
}
