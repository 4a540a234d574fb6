// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// before stands before a server, and does with a request what it likes.
func before(t *testing.T, kind string, meddle func(w http.ResponseWriter, r *http.Request, pass http.Handler)) (address string) {
	t.Helper()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", addresses[kind]
			if kind != "s3" { // there it is signed
				r.Out.Host = addresses[kind]
			}
		},
		ErrorLog: log.New(io.Discard, "", 0), // who has gone
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { meddle(w, r, proxy) }))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// isWrite says whether a request writes an object.
func isWrite(r *http.Request) bool { return r.Method == http.MethodPut || r.Method == http.MethodPost }

// The store has written the object, but its answer gets lost, and the store's client
// writes it again.
func TestWhoseAnswerWasLostHasWrittenItAllTheSame(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			var lose atomic.Bool
			address := before(t, kind, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
				if isWrite(r) && lose.CompareAndSwap(true, false) {
					pass.ServeHTTP(httptest.NewRecorder(), r)
					panic(http.ErrAbortHandler)
				}
				pass.ServeHTTP(w, r)
			})
			store := place(t, use(t, kind, address))(t)
			for i := range 5 {
				lose.Store(true)
				key := fmt.Sprint("claim/", i)
				require.NoError(t, store.Create(t.Context(), key, []byte("5")), "it is ours")
				require.False(t, lose.Load())
				require.ErrorIs(t, store.Create(t.Context(), key, []byte("5")), storage.ErrExists)
			}
		})
	}
}

func TestARequestThatHangsIsMadeAgain(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			var hang atomic.Bool
			address := before(t, kind, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
				if hang.CompareAndSwap(true, false) {
					_, _ = io.Copy(io.Discard, r.Body)
					<-r.Context().Done()
					return
				}
				pass.ServeHTTP(w, r)
			})
			store := place(t, use(t, kind, address))(t)
			hang.Store(true)
			require.NoError(t, store.Create(t.Context(), "a/1", []byte("x")))
			require.False(t, hang.Load())
			content, err := store.Read(t.Context(), "a/1")
			require.NoError(t, err)
			require.Equal(t, "x", string(content))
		})
	}
}

func TestAStoreThatIsAwayIsGivenUp(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			var away atomic.Bool
			address := before(t, kind, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
				if away.Load() {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				pass.ServeHTTP(w, r)
			})
			store := place(t, use(t, kind, address))(t)
			require.NoError(t, store.Create(t.Context(), "a/1", nil))
			away.Store(true)
			limited, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := store.Read(limited, "a/1")
			require.Error(t, err)
			require.NotErrorIs(t, err, storage.ErrNotFound)
			require.NoError(t, limited.Err(), "it says so in time")
			away.Store(false)
			require.NoError(t, store.Create(t.Context(), "a/2", nil))
		})
	}
}

// S3 signs its requests, so nothing can be taken from one on its way.
func TestAStoreThatOverwritesIsRefused(t *testing.T) {
	address := before(t, "gs", func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		query := r.URL.Query()
		query.Del("ifGenerationMatch")
		r.URL.RawQuery = query.Encode()
		pass.ServeHTTP(w, r)
	})
	_, err := storage.OpenObjectStore(t.Context(), use(t, "gs", address))
	require.ErrorContains(t, err, "the store ignores the conditions of writes")
}
