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

// A reader of a stream without an end is warned that it was cut off.
func TestAStreamThatFoundTheStorageFullIsCreatedLaterForAPodThatMayBeGone(t *testing.T) {
	s, server, bucket := serveFillable(t)
	server.timing.postponed = time.Millisecond
	bucket.full.Store(true)
	for range 2 {
		require.Equal(t, http.StatusInsufficientStorage, s.do(http.MethodPost, "/logs", "token-of-a", `{"name":"stdout","container":"main"}`).status)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- server.CreatePostponed(ctx) }()
	time.Sleep(20 * time.Millisecond) // tries that fail
	_, names := s.lists("tenant", "")
	require.Empty(t, names)
	bucket.full.Store(false)
	require.Eventually(t, func() bool {
		_, names := s.lists("tenant", "")
		return names == "a"
	}, time.Minute, time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
	require.Empty(t, server.postponed.sources.Drain())
	path := s.stream("stdout")
	got := s.do(http.MethodGet, path+"/data", "token-of-user-tenant", "")
	require.Equal(t, http.StatusOK, got.status)
	require.Empty(t, got.body)
}

func TestStreamsThatFoundTheStorageFullCountForTheLimitsOfTheirNamespace(t *testing.T) {
	s, server, bucket := serveFillable(t)
	server.Limit(noStreams{})
	server.postponed.add(postponedStream{streams.Source{Namespace: "tenant", Pod: "a", PodUID: "uid", Name: "stdout"}, time.Now().Add(time.Hour)})
	bucket.full.Store(false)
	server.createPostponed(t.Context())
	_, names := s.lists("tenant", "")
	require.Empty(t, names)
	require.Empty(t, server.postponed.sources.Drain())
}

// noStreams are limits that leave no stream.
type noStreams struct{ unlimited }

func (noStreams) CheckStream(string) error        { return errors.New("full") }
func (noStreams) CheckSurplusStream(string) error { return errors.New("full") }

func TestATenantWhoseManyStreamsFoundTheStorageFullKeepsRoomForOthers(t *testing.T) {
	p := newPostponed()
	until := time.Now().Add(time.Hour)
	p.add(postponedStream{streams.Source{Namespace: "other", Pod: "a", Name: "stdout"}, until})
	for i := range 100_000 {
		p.add(postponedStream{streams.Source{Namespace: "tenant", Pod: strings.Repeat("p", 253), Container: strings.Repeat("c", 253), Name: strconv.Itoa(i), Labels: map[string]string{"a": "b"}}, until})
	}
	of := map[string]int{}
	for _, stream := range p.sources.Drain() {
		of[stream.source.Namespace]++
	}
	require.Equal(t, 1, of["other"])
	require.Less(t, of["tenant"], 1500)
	require.Greater(t, of["tenant"], 500)
}
