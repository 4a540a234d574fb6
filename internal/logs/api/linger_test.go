// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/retries"
)

// linger returns the time that a writer gets with the response to its next byte.
func (s *service) linger(path string, at int) string {
	s.t.Helper()
	got := s.do("PATCH", path+"/data", "token-of-a", "x", "Content-Range", fmt.Sprintf("bytes %d-%d/*", at, at))
	require.Equal(s.t, http.StatusAccepted, got.status, got.body)
	return got.header.Get(retries.LingerHeader)
}

func TestAWriterMayLingerAsLongAsItsNamespaceAllows(t *testing.T) {
	for limit, want := range map[time.Duration]string{0: "", 500 * time.Millisecond: "", 1500 * time.Millisecond: "1", 30 * time.Second: "30"} {
		s := serve(t, 1)
		s.servers[0].Limit(&strict{bytes: 1 << 20, streams: 5, linger: limit})
		path := s.stream("stdout")
		require.Equal(t, want, s.linger(path, 0))
		marked := s.do("POST", path+"/markers", "token-of-a", `{"range":"bytes 1-4/*","markers":["dropped"]}`)
		require.Equal(t, want, marked.header.Get(retries.LingerHeader))
		appended := s.do("POST", path+"/data", "token-of-a", "x")
		require.Equal(t, want, appended.header.Get(retries.LingerHeader))
		ended := s.do("PATCH", path+"/data", "token-of-a", "", "Content-Range", "bytes */6")
		require.Empty(t, ended.header.Get(retries.LingerHeader), "nothing follows")
	}
}

func TestAWriterMayNotLingerWhileSomebodyFollowsAtAnyReplica(t *testing.T) {
	s := serve(t, 2)
	for _, server := range s.servers {
		server.Limit(&strict{bytes: 1 << 20, streams: 5, linger: 30 * time.Second})
	}
	path, other := s.stream("stdout"), s.stream("stderr")
	response, err := http.DefaultClient.Do(s.request("GET", path+"/data?follow=true", "token-of-user-tenant", ""))
	require.NoError(t, err)
	defer response.Body.Close()
	require.Eventually(t, func() bool {
		signs, err := os.ReadDir(filepath.Join(s.directory, "followed"))
		return err == nil && len(signs) > 0
	}, 20*time.Second, time.Millisecond)
	for at := range 2 { // at each replica
		require.Empty(t, s.linger(path, at))
	}
	for at := range 2 {
		require.Equal(t, "30", s.linger(other, at))
	}
}
