// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// noted has the notices as text.
type noted []string

func (n *noted) Refused(pod Pod, container, stream, why string) {
	*n = append(*n, fmt.Sprintf("refused %s %s of %s: %s", stream, container, pod.Name, why))
}

func (n *noted) Dropped(pod Pod, container, stream string) {
	*n = append(*n, fmt.Sprintf("dropped %s %s of %s", stream, container, pod.Name))
}

func (n *noted) take() []string {
	taken := *n
	*n = nil
	return taken
}

func TestWhatIsRefusedOrDroppedIsNoted(t *testing.T) {
	s := serve(t, 1)
	limits := &strict{bytes: 4000, streams: 1}
	notices := &noted{}
	s.servers[0].Limit(limits)
	s.servers[0].Notify(notices)
	path := s.stream("stdout")
	s.accepted(http.MethodPatch, path+"/data", "hello", "Content-Range", "bytes 0-4/*")
	require.Empty(t, notices.take())
	s.accepted(http.MethodPost, path+"/markers", `{"range":"bytes 5-9/*","markers":["dropped"]}`)
	require.Equal(t, []string{"dropped stdout  of a"}, notices.take())

	limits.bytes = 0
	for _, method := range []string{http.MethodPatch, http.MethodPost} {
		got := s.do(method, path+"/data", "token-of-a", "x", "Content-Range", "bytes 10-10/*")
		require.Equal(t, http.StatusRequestEntityTooLarge, got.status)
		require.Equal(t, []string{"refused stdout  of a: the quota is used up"}, notices.take())
	}
	limits.bytes = -2_000_000
	require.Equal(t, http.StatusRequestEntityTooLarge, s.do(http.MethodPost, path+"/markers", "token-of-a", `{"range":"bytes 11-12/*","markers":["dropped"]}`).status)
	require.Equal(t, []string{"refused stdout  of a: not even for markers"}, notices.take())

	limits.bytes, limits.streams = 4000, -2
	require.Equal(t, http.StatusRequestEntityTooLarge, s.do(http.MethodPost, "/logs", "token-of-a", `{"name":"stderr","container":"main"}`).status)
	require.Equal(t, []string{"refused stderr main of a: there are far too many streams"}, notices.take())

	limits.streams = 1
	for _, mistake := range []struct{ token, body, at string }{
		{"token-of-b", "x", "bytes 10-10/*"}, {"token-of-a", "xxx", "bytes 10-10/*"}, {"token-of-a", "", "bytes */2"},
	} {
		got := s.do(http.MethodPatch, path+"/data", mistake.token, mistake.body, "Content-Range", mistake.at)
		require.GreaterOrEqual(t, got.status, http.StatusBadRequest)
		require.Empty(t, notices.take())
	}
}
