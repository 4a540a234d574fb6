// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoMoreLongBodiesAreReadAtATimeThanThereIsRoomFor(t *testing.T) {
	const body, room = 200_000, 500_000
	var now, most atomic.Int64
	handler := LimitLongBodies(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		for range 1000 {
			_ = strings.Repeat("x", 100)
		}
	}), room)
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/pods", strings.NewReader(strings.Repeat("x", body))))
			if w.Code != http.StatusOK {
				t.Errorf("the answer is %d", w.Code)
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, most.Load(), int64(room/body))
}

func TestARequestWhoseClientGaveUpWaitsNoLonger(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{})
	handler := LimitLongBodies(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 0 {
			close(entered)
			<-release
		}
	}), 10)
	request := func(ctx context.Context) *http.Request {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/pods", strings.NewReader("x"))
		r.ContentLength = -1 // of a length that it doesn't tell
		return r
	}
	var first sync.WaitGroup
	first.Go(func() { handler.ServeHTTP(httptest.NewRecorder(), request(t.Context())) })
	<-entered
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, request(gone))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	w = httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	require.Equal(t, http.StatusOK, w.Code, "a probe waits for nobody")
	close(release)
	first.Wait()
}
