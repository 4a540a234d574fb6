// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/storage/storagetest"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// A fillable bucket can be full.
type fillable struct {
	storage.Bucket
	full atomic.Bool
}

// Create implements storage.Bucket.
func (f *fillable) Create(ctx context.Context, key string, content []byte) error {
	if f.full.Load() {
		return fmt.Errorf("writing %q: %w: %w", key, storage.ErrFull, syscall.ENOSPC)
	}
	return f.Bucket.Create(ctx, key, content)
}

// serveFillable serves from a bucket that can be full.
func serveFillable(t *testing.T) (*service, *Server, *fillable) {
	t.Helper()
	s := serve(t, 0)
	bucket := &fillable{Bucket: storagetest.OpenFiles(t, s.directory)}
	store, err := streams.Open(t.Context(), bucket)
	require.NoError(t, err)
	server := New(store, s.who, slog.New(slog.DiscardHandler))
	s.servers, s.replicas = append(s.servers, server), append(s.replicas, httptest.NewServer(server.Handler()))
	t.Cleanup(s.replicas[0].Close)
	return s, server, bucket
}

func TestClientsLearnThatTheStorageIsFull(t *testing.T) {
	s, server, bucket := serveFillable(t)
	path := s.stream("stdout")
	bucket.full.Store(true)
	for name, got := range map[string]received{
		"a stream": s.do(http.MethodPost, "/logs", "token-of-a", `{"name":"stderr"}`),
		"a part":   s.do(http.MethodPatch, path+"/data", "token-of-a", "hello", "Content-Range", "bytes 0-4/*"),
		"an end":   s.do(http.MethodPatch, path+"/data", "token-of-a", "", "Content-Range", "bytes */5"),
		"a marker": s.do(http.MethodPost, path+"/markers", "token-of-a", `{"range":"bytes 0-4/*","markers":["dropped"]}`),
	} {
		require.Equal(t, http.StatusInsufficientStorage, got.status, name)
		require.Equal(t, retryAfterFull, got.header.Get("Retry-After"), name)
		require.JSONEq(t, `{"error":"the storage of the log service is full: ask its operator for more space"}`, got.body, name)
	}
	require.InDelta(t, 4, testutil.ToFloat64(server.metrics.refused.WithLabelValues(reasonFull)), 0)
	bucket.full.Store(false)
	require.Equal(t, http.StatusAccepted, s.do(http.MethodPatch, path+"/data", "token-of-a", "hello", "Content-Range", "bytes 0-4/5").status)
}

// streamOfA is the stream for which pod a asks.
var streamOfA = streams.Source{Namespace: "tenant", NamespaceUID: "uid-1", Pod: "a", PodUID: "uid-a", Container: "main", Name: "stdout"}

// recovering serves from a bucket that was full when pod a asked for its stream.
func recovering(t *testing.T) (*service, *Server, *fillable) {
	t.Helper()
	s, server, bucket := serveFillable(t)
	bucket.full.Store(true)
	for range 2 {
		require.Equal(t, http.StatusInsufficientStorage, s.do(http.MethodPost, "/logs", "token-of-a", `{"name":"stdout","container":"main"}`).status)
	}
	require.Equal(t, 1, server.postponed.count())
	server.createPostponed(t.Context())
	require.Equal(t, 1, server.postponed.count(), "after a try that failed")
	bucket.full.Store(false)
	return s, server, bucket
}

// requireLogs checks which pods have logs, and that no stream waits.
func (s *service) requireLogs(server *Server, want string) {
	s.t.Helper()
	_, names := s.lists("tenant", "")
	require.Equal(s.t, want, names)
	require.Zero(s.t, server.postponed.count())
}

// A reader of a stream without an end is warned that it was cut off.
func TestAStreamThatFoundTheStorageFullIsCreatedLaterForAPodThatMayBeGone(t *testing.T) {
	s, server, _ := recovering(t)
	server.timing.postponed = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- server.CreatePostponed(ctx) }()
	require.Eventually(t, func() bool { return server.postponed.count() == 0 }, time.Minute, time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
	s.requireLogs(server, "a")
	id, err := server.streams.Create(t.Context(), streamOfA)
	require.NoError(t, err)
	state, err := server.streams.State(t.Context(), id)
	require.NoError(t, err)
	require.False(t, state.Complete)
}

func TestAStreamThatTheStorageRefusedForAnotherReasonIsCreatedLaterAsWell(t *testing.T) {
	s := serve(t, 1)
	unfinished := filepath.Join(s.directory, "unfinished")
	require.NoError(t, os.Rename(unfinished, unfinished+"-before"))
	require.Equal(t, http.StatusServiceUnavailable, s.do(http.MethodPost, "/logs", "token-of-a", `{"name":"stdout"}`).status)
	require.NoError(t, os.Rename(unfinished+"-before", unfinished))
	s.servers[0].createPostponed(t.Context())
	s.requireLogs(s.servers[0], "a")
}

// erase deletes the logs of pod a, which has some.
func (s *service) erase(server *Server) {
	s.t.Helper()
	all := func(streams.Listed) (bool, error) { return true, nil }
	erased, err := server.streams.ErasePod(s.t.Context(), "tenant", "a", all, false)
	require.NoError(s.t, err)
	require.Equal(s.t, 1, erased.Streams)
}

func TestAStreamIsNotCreatedLater(t *testing.T) {
	for name, happens := range map[string]func(*service, *Server, *fillable){
		"if its namespace has no stream left": func(_ *service, server *Server, _ *fillable) { server.Limit(noStreams{}) },
		"if its pod has created it, and its logs were deleted": func(s *service, server *Server, _ *fillable) {
			s.begin("token-of-a", `{"name":"stdout","container":"main"}`)
			require.Zero(s.t, server.postponed.count())
			s.erase(server)
		},
		"if its pod has created it at another replica, and its logs were deleted": func(s *service, server *Server, bucket *fillable) {
			store, err := streams.Open(s.t.Context(), bucket)
			require.NoError(s.t, err)
			_, err = store.Create(s.t.Context(), streamOfA)
			require.NoError(s.t, err)
			s.erase(server)
		},
		"if the storage has failed for an hour": func(_ *service, server *Server, _ *fillable) {
			for key, stream := range server.postponed.waiting {
				stream.until = time.Now()
				server.postponed.waiting[key] = stream
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, server, bucket := recovering(t)
			happens(s, server, bucket)
			server.createPostponed(t.Context())
			s.requireLogs(server, "")
		})
	}
}

// noStreams are limits that leave no stream.
type noStreams struct{ unlimited }

func (noStreams) CheckStream(string) error        { return errors.New("full") }
func (noStreams) CheckSurplusStream(string) error { return errors.New("full") }

// A later namespace of the same name must not get to know of the pods of the former one.
func TestAStreamOfANamespaceThatIsNotKnownIsNotCreatedLater(t *testing.T) {
	_, server, _ := serveFillable(t)
	server.postpone(streams.Source{Namespace: "tenant", Pod: "a", PodUID: "uid-of-a", Name: "stdout"}, storage.ErrFull)
	require.Zero(t, server.postponed.count())
}

func TestStreamsThatFoundTheStorageFullTakeTheMemoryOfTheirNamespace(t *testing.T) {
	p := newPostponed()
	until := time.Now().Add(time.Hour)
	for i := range 100_000 {
		p.add(streams.Source{Namespace: "tenant", Pod: strings.Repeat("p", 253), Container: strings.Repeat("c", 253), Name: strconv.Itoa(i), Labels: map[string]string{"a": "b"}}, until)
	}
	most := p.count()
	require.Less(t, most, 1500)
	require.Greater(t, most, 500)
	p.add(streams.Source{Namespace: "other", Pod: "a", Name: "stdout"}, until)
	require.Equal(t, most+1, p.count())
	for _, stream := range p.all() {
		p.remove(stream.source)
		p.remove(stream.source)
	}
	require.Zero(t, p.shares.InUse())
}
