// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"

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

func TestClientsLearnThatTheStorageIsFull(t *testing.T) {
	s := serve(t, 0)
	bucket := &fillable{Bucket: storagetest.OpenFiles(t, s.directory)}
	store, err := streams.Open(t.Context(), bucket)
	require.NoError(t, err)
	server := New(store, s.who, slog.New(slog.DiscardHandler))
	s.replicas = append(s.replicas, httptest.NewServer(server.Handler()))
	t.Cleanup(s.replicas[0].Close)
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
