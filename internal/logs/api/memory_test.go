// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/storage/storagetest"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// A crowded bucket has, in all streams but one, as many small objects and markers as a
// stream may have. It generates them, and takes no memory.
type crowded struct {
	storage.Bucket
	pieces   int64
	ordinary string // the one that has what was written to it
	member   []byte
	listings atomic.Int64
}

// Each implements storage.Bucket.
func (c *crowded) Each(ctx context.Context, directory string, each func(storage.Object) bool) error {
	kind := path.Base(directory)
	if !strings.HasPrefix(directory, "streams/") || strings.Contains(directory, c.ordinary) {
		return c.Bucket.Each(ctx, directory, each)
	}
	count, from, written := int64(0), int64(0), time.Now().Add(-time.Hour)
	switch kind {
	case "data":
		count = c.pieces
		c.listings.Add(1)
	case "drop":
		count, from = 2*c.pieces, 4*c.pieces
	}
	for i := range count {
		if i%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !each(storage.Object{Name: fmt.Sprintf("%016x-1", from+2*i), Size: int64(len(c.member)), Written: written}) {
			break
		}
	}
	return nil
}

// Walk implements storage.Bucket.
func (c *crowded) Walk(ctx context.Context, directory, after string, each func(storage.Object) bool) error {
	if strings.Contains(directory, c.ordinary) {
		return c.Bucket.Walk(ctx, directory, after, each)
	}
	if path.Base(directory) == "data" {
		return c.Each(ctx, directory, func(o storage.Object) bool { return o.Name <= after || each(o) })
	}
	more := true
	for _, kind := range []string{"data", "drop"} {
		err := c.Each(ctx, directory+kind, func(o storage.Object) bool {
			o.Name = kind + "/" + o.Name
			more = each(o)
			return more
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// Read implements storage.Bucket.
func (c *crowded) Read(ctx context.Context, key string) ([]byte, error) {
	if strings.Contains(key, "/data/") && !strings.Contains(key, c.ordinary) {
		return c.member, nil
	}
	return c.Bucket.Read(ctx, key)
}

func crowd(t *testing.T, pieces int64) (*Server, *crowded, *httptest.Server) {
	t.Helper()
	var member bytes.Buffer
	zip := gzip.NewWriter(&member)
	_, err := zip.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, zip.Close())
	bucket := &crowded{Bucket: storagetest.OpenFiles(t, t.TempDir()), pieces: pieces, member: member.Bytes(), ordinary: "none"}
	store, err := streams.Open(t.Context(), bucket)
	require.NoError(t, err)
	server := New(store, &fakeAuthenticator{namespace: Namespace{UID: "uid-1"}}, slog.New(slog.DiscardHandler))
	front := httptest.NewServer(server.Handler())
	t.Cleanup(front.Close)
	return server, bucket, front
}

func (c *crowded) stream(t *testing.T, s *Server, namespace string, i int) (id string) {
	t.Helper()
	id, err := s.streams.Create(t.Context(), streams.Source{Namespace: namespace, NamespaceUID: "uid-1", Pod: "a", PodUID: "uid-a", Name: fmt.Sprint(i)})
	require.NoError(t, err)
	return id
}

func get(ctx context.Context, t *testing.T, url, user string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer token-of-user-"+user)
	return http.DefaultClient.Do(r)
}

// Listing a stream with all objects that it may have takes megabytes.
func TestReadersOfManyCrowdedStreamsStayWithinTheMemory(t *testing.T) {
	const limit = 200 << 20
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	s, bucket, front := crowd(t, streams.MaxPieces/2) // and twice as many markers
	var ids []string
	for i := range 24 {
		ids = append(ids, bucket.stream(t, s, "crowd", i))
	}
	bucket.ordinary = bucket.stream(t, s, "tenant", 0)
	require.NoError(t, s.streams.Write(t.Context(), bucket.ordinary, 0, []byte("hello")))
	require.NoError(t, s.streams.End(t.Context(), bucket.ordinary, 5))

	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var readers sync.WaitGroup
	var answered, refused atomic.Int64
	for i := range 96 {
		readers.Go(func() {
			what := []string{"/data", "/data?follow=true", ""}[i%3]
			for ctx.Err() == nil {
				response, err := get(ctx, t, front.URL+"/logs/"+ids[i%len(ids)]+what, "crowd")
				if err != nil {
					return
				}
				if response.StatusCode == http.StatusTooManyRequests {
					refused.Add(1)
				} else {
					answered.Add(1)
				}
				_, _ = io.CopyN(io.Discard, response.Body, 1000)
				<-time.After(300 * time.Millisecond) // and takes no more for a while
				_ = response.Body.Close()
			}
		})
	}
	var most uint64
	var held int64
	for samples := 0; samples < 50 || (answered.Load() == 0 || refused.Load() == 0) && ctx.Err() == nil; samples++ {
		time.Sleep(100 * time.Millisecond)
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		most, held = max(most, stats.HeapAlloc), max(held, s.streams.HeldBytes())
	}
	t.Logf("%d answered, %d refused; at most %d MiB were held, of a heap of %d MiB", answered.Load(), refused.Load(), held>>20, most>>20)
	require.Positive(t, answered.Load())
	require.Positive(t, refused.Load())
	require.Less(t, most, uint64(limit))

	response, err := get(t.Context(), t, front.URL+"/logs/"+bucket.ordinary+"/data", "tenant")
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, "hello", string(text), "another namespace reads meanwhile")

	cancel()
	readers.Wait()
	require.Eventually(t, func() bool { return s.streams.HeldBytes() == 0 }, 20*time.Second, 10*time.Millisecond, "all is given back")
	again, err := get(t.Context(), t, front.URL+"/logs/"+ids[0], "crowd")
	require.NoError(t, err)
	require.NoError(t, again.Body.Close())
	require.Equal(t, http.StatusOK, again.StatusCode)
}

func TestFollowersOfOneStreamShareAListing(t *testing.T) {
	s, bucket, front := crowd(t, 3)
	s.timing.follow = 50 * time.Millisecond
	id := bucket.stream(t, s, "crowd", 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var readers sync.WaitGroup
	for range 64 {
		readers.Go(func() {
			response, err := get(ctx, t, front.URL+"/logs/"+id+"/data?follow=true&from=1000", "crowd")
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		})
	}
	require.Eventually(t, func() bool { return s.readers.InUse() == 64 }, 10*time.Second, time.Millisecond)
	began, before := time.Now(), bucket.listings.Load()
	time.Sleep(time.Second)
	looks, turns := bucket.listings.Load()-before, int64(time.Since(began)/s.timing.follow)
	require.Positive(t, looks)
	require.Less(t, looks, 8*turns, "each looks at each turn: %d", 64*turns)
	cancel()
	readers.Wait()
}
