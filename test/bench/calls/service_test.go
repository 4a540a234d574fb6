// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/export"
	"github.com/entrypointer/entrypointer/internal/logs/keeper"
	"github.com/entrypointer/entrypointer/internal/logs/retries"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/logs/times"
)

// anyone authenticates every token: as a pod of that name, and as a user.
type anyone struct{}

// Writer implements api.Authenticator.
func (anyone) Writer(_ context.Context, token string) (api.Pod, error) {
	return api.Pod{Namespace: "tenant", NamespaceUID: "uid", Name: token, UID: token}, nil
}

// Beginner implements api.Authenticator.
func (a anyone) Beginner(ctx context.Context, token string) (api.Pod, error) {
	return a.Writer(ctx, token)
}

// Reader implements api.Authenticator.
func (anyone) Reader(_ context.Context, token string) (api.User, error) {
	return api.User{Name: token}, nil
}

// MayRead implements api.Authenticator.
func (anyone) MayRead(context.Context, api.User, string, string) error { return nil }

// Namespace implements api.Authenticator.
func (anyone) Namespace(context.Context, string) (api.Namespace, error) {
	return api.Namespace{UID: "uid"}, nil
}

// replicas is how many replicas there are, as in examples/logs.
const replicas = 3

// A service is replicas that share a bucket, until stop is called.
type service struct {
	t        *testing.T
	bucket   *bucket
	replicas []http.Handler
	context  func() context.Context
	stop     func()
	running  sync.WaitGroup
}

// taker is a destination of logs that takes all requests.
type taker struct{}

// RoundTrip implements http.RoundTripper.
func (taker) RoundTrip(r *http.Request) (*http.Response, error) {
	_, err := io.Copy(io.Discard, r.Body)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, err
}

func serve(t *testing.T, exported bool) *service {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	s := &service{t: t, bucket: newBucket(), context: func() context.Context { return ctx }, stop: stop}
	for range replicas {
		store, err := streams.Open(ctx, s.bucket)
		require.NoError(t, err)
		keeps := keeper.New(store, s.bucket, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		keeps.Use(&keeper.DefaultLimits)
		server := api.New(store, anyone{}, slog.New(slog.DiscardHandler))
		server.Limit(keeps)
		if exported {
			exporter, err := export.New(store, s.bucket, export.Options{URL: "http://collector/v1/logs", Timeout: time.Minute, Pause: export.PauseOnBucket, Transport: taker{}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			require.NoError(t, err)
			server.Export(exporter)
			s.running.Go(func() { _ = exporter.Run(ctx) })
		}
		s.replicas = append(s.replicas, server.Handler())
		s.running.Go(func() { _ = keeps.Run(ctx) })
	}
	return s
}

// A stream is a stream of a pod whose connection leads to the first replica. It sends as
// the shipper does.
type stream struct {
	*service
	pod, id string
	at      int64
	unsent  []byte
	linger  time.Duration
	sent    time.Time // when the last part was sent
}

func (s *service) stream(pod, name string) *stream {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.context(), http.MethodPost, "/logs", strings.NewReader(fmt.Sprintf(`{"name":%q,"container":"main"}`, name)))
	r.Header.Set("Authorization", "Bearer "+pod)
	answer := httptest.NewRecorder()
	s.replicas[0].ServeHTTP(answer, r)
	var made struct{ ID string }
	require.NoError(s.t, json.Unmarshal(answer.Body.Bytes(), &made))
	require.NotEmpty(s.t, made.ID)
	return &stream{service: s, pod: pod, id: made.ID}
}

// patch sends a request that writes.
func (s *stream) patch(contentRange string, body []byte) {
	r := httptest.NewRequestWithContext(s.context(), http.MethodPatch, "/logs/"+s.id+"/data", bytes.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+s.pod)
	r.Header.Set("Content-Range", contentRange)
	if body != nil {
		r.Header.Set("Content-Type", "application/octet-stream")
		r.Header.Set("Content-Encoding", "gzip")
	}
	answer := httptest.NewRecorder()
	s.replicas[0].ServeHTTP(answer, r)
	if answer.Code != http.StatusAccepted {
		s.t.Errorf("writing: %d: %s", answer.Code, answer.Body)
	}
	seconds, _ := strconv.Atoi(answer.Header().Get(retries.LingerHeader)) // 0 without
	s.linger, s.sent = time.Duration(seconds)*time.Second, time.Now()
}

// write sends bytes that are compressed already.
func (s *stream) write(length int, packed []byte) {
	s.patch(fmt.Sprintf("bytes %d-%d/*", s.at, s.at+int64(length)-1), packed)
	s.at += int64(length)
}

func (s *stream) end() { s.patch(fmt.Sprintf("bytes */%d", s.at), nil) }

// print prints a line, and sends it unless it waits for more.
func (s *stream) print(line string) {
	s.unsent = append(s.unsent, line...)
	if time.Since(s.sent) < s.linger {
		return
	}
	s.write(len(s.unsent), pack(s.unsent))
	s.unsent = s.unsent[:0]
}

// pack compresses bytes as the shipper does, with their time.
func pack(data []byte) []byte {
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed) // a valid level
	w.Extra = times.Encode(0, []times.Mark{{At: 0, Time: time.Now().UnixMilli()}})
	_, _ = w.Write(data) // into memory
	_ = w.Close()
	return packed.Bytes()
}

// A follower is the response to a client that follows a stream.
type follower struct{ header http.Header }

// Header implements http.ResponseWriter.
func (f follower) Header() http.Header { return f.header }

// Write implements http.ResponseWriter.
func (f follower) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader implements http.ResponseWriter.
func (f follower) WriteHeader(int) {}

// Flush implements http.Flusher.
func (f follower) Flush() {}

// SetWriteDeadline is called by http.ResponseController.
func (f follower) SetWriteDeadline(time.Time) error { return nil }

// follow follows a stream at the second replica until the service is stopped.
func (s *stream) follow() {
	r := httptest.NewRequestWithContext(s.context(), http.MethodGet, "/logs/"+s.id+"/data?follow=true", nil)
	r.Header.Set("Authorization", "Bearer user")
	r.Header.Set("Accept", "text/event-stream")
	s.running.Go(func() {
		defer func() { _ = recover() }() // how a response is cut off
		s.replicas[1].ServeHTTP(follower{http.Header{}}, r)
	})
}
