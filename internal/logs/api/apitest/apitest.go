// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package apitest is the conformance test of several replicas of the log service on a kind
// of storage: to clients, they have to look like one.
package apitest

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
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/storage/storagetest"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// writer and reader are the two valid tokens.
const writer, reader = "writer", "reader"

// fakeAuthenticator authenticates a pod, and a user who may read its logs.
type fakeAuthenticator struct{}

// Writer implements api.Authenticator.
func (fakeAuthenticator) Writer(_ context.Context, token string) (api.Pod, error) {
	if token != writer {
		return api.Pod{}, api.ErrUnauthenticated
	}
	return api.Pod{Namespace: "tenant", NamespaceUID: "uid-tenant", Name: "a", UID: "uid-a"}, nil
}

// Beginner implements api.Authenticator.
func (a fakeAuthenticator) Beginner(ctx context.Context, token string) (api.Pod, error) {
	return a.Writer(ctx, token)
}

// Reader implements api.Authenticator.
func (fakeAuthenticator) Reader(_ context.Context, token string) (api.User, error) {
	if token != reader {
		return api.User{}, api.ErrUnauthenticated
	}
	return api.User{Name: reader}, nil
}

// MayRead implements api.Authenticator.
func (fakeAuthenticator) MayRead(context.Context, api.User, string, string) error { return nil }

// Namespace implements api.Authenticator.
func (fakeAuthenticator) Namespace(_ context.Context, name string) (api.Namespace, error) {
	return api.Namespace{UID: "uid-" + name}, nil
}

// A service is some replicas on one storage, behind a load balancer.
type service struct {
	t        *testing.T
	place    storagetest.Place
	server   *httptest.Server
	mu       sync.Mutex
	replicas []http.Handler
	next     int
}

func serve(t *testing.T, place storagetest.Place, replicas int) *service {
	t.Helper()
	s := &service{t: t, place: place}
	for range replicas {
		s.replicas = append(s.replicas, s.replica())
	}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	return s
}

// replica starts a replica.
func (s *service) replica() http.Handler {
	s.t.Helper()
	store, err := streams.Open(s.t.Context(), s.place(s.t))
	require.NoError(s.t, err)
	return api.New(store, fakeAuthenticator{}, slog.New(slog.DiscardHandler)).Handler()
}

// dies is the header of a request whose replica dies after it has written, and before it
// responds.
const dies = "X-Dies"

// ServeHTTP implements http.Handler: it sends each request to another replica.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.next++
	at := s.next % len(s.replicas)
	replica := s.replicas[at]
	s.mu.Unlock()
	if r.Header.Get(dies) == "" {
		replica.ServeHTTP(w, r)
		return
	}
	replica.ServeHTTP(unsent{httptest.NewRecorder(), http.NewResponseController(w)}, r)
	successor := s.replica()
	s.mu.Lock()
	s.replicas[at] = successor
	s.mu.Unlock()
	panic(http.ErrAbortHandler)
}

// unsent discards a response.
type unsent struct {
	*httptest.ResponseRecorder
	*http.ResponseController
}

// Flush implements http.Flusher.
func (u unsent) Flush() { u.ResponseRecorder.Flush() }

func (s *service) request(method, path, token, body string, headers ...string) (status int, answer string, err error) {
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.server.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.GetBody = nil // the transport repeats nothing by itself
	r.Header.Set("Authorization", "Bearer "+token)
	switch {
	case strings.HasSuffix(path, "/data") && method != http.MethodGet:
		r.Header.Set("Content-Type", "application/octet-stream")
	case method == http.MethodPost:
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	return response.StatusCode, string(all), err
}

// send writes, and retries as long as the response is 429.
func (s *service) send(method, path, body string, headers ...string) error {
	for {
		status, answer, err := s.request(method, path, writer, body, headers...)
		switch {
		case err != nil:
			return err
		case status == http.StatusTooManyRequests:
		case status != http.StatusAccepted:
			return fmt.Errorf("%s %s: %d: %s", method, path, status, answer)
		default:
			return nil
		}
	}
}

// stream creates a stream, and returns its path.
func (s *service) stream(name string) (path string, err error) {
	status, answer, err := s.request(http.MethodPost, "/logs", writer, fmt.Sprintf(`{"name":%q}`, name))
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("creating stream %q: %d: %s", name, status, answer)
	}
	if err != nil {
		return "", err
	}
	var made struct{ ID string }
	err = json.Unmarshal([]byte(answer), &made)
	return "/logs/" + made.ID, err
}

func (s *service) read(path string) string {
	s.t.Helper()
	status, answer, err := s.request(http.MethodGet, path, reader, "")
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, status, answer)
	return answer
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text)) // a Buffer never fails
	_ = w.Close()
	return b.String()
}
