// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/registrytest"
)

type handler = func(http.ResponseWriter, *http.Request) bool

// status answers everything with a code.
func status(code int, header ...string) handler {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		return true
	}
}

// onGet leaves HEAD and all that isn't about kind ("manifests", "blobs") alone.
func onGet(kind string, answer func(http.ResponseWriter, *http.Request)) handler {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/"+kind+"/") {
			return false
		}
		answer(w, r)
		return true
	}
}

// endlessly writes until the other side hangs up, with a pause between the pieces.
func endlessly(piece []byte, pause time.Duration) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", string(types.DockerManifestSchema2))
		for r.Context().Err() == nil {
			if _, err := w.Write(piece); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			time.Sleep(pause)
		}
	}
}

func TestARegistryThatMisbehavesHarmsNobody(t *testing.T) {
	for name, test := range map[string]struct {
		image     string // "app" if empty
		intercept handler
		reason    lookup.Reason
		says      string
	}{
		"no such image":             {image: "missing", reason: lookup.NotFound, says: "correct the image"},
		"a name that doesn't parse": {image: "UPPER CASE", reason: lookup.InvalidReference},
		"unauthorized":              {intercept: status(http.StatusUnauthorized), reason: lookup.Unauthorized, says: "imagePullSecrets"},
		"forbidden":                 {intercept: status(http.StatusForbidden), reason: lookup.Unauthorized, says: "403 Forbidden"},
		"too many requests":         {intercept: status(http.StatusTooManyRequests, "Retry-After", "7"), reason: lookup.TooManyRequests, says: "asks to wait 7s"},
		"the registry's own fault":  {intercept: status(http.StatusInternalServerError), reason: lookup.RegistryError, says: "500 Internal Server Error"},
		"redirected for ever": {intercept: func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, r.URL.String(), http.StatusTemporaryRedirect)
			return true
		}, reason: lookup.RegistryError, says: "isn't a registry's"},
		"no answer": {intercept: func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}, reason: lookup.Timeout, says: "try again"},
		"a manifest without end": {intercept: onGet("manifests", endlessly(make([]byte, 1<<16), 0)), reason: lookup.RegistryError, says: "longer than 4194304 bytes"},
		"a config of 100 MB": {intercept: onGet("blobs", func(w http.ResponseWriter, _ *http.Request) {
			for range 100 << 4 {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}), reason: lookup.RegistryError, says: "longer than 1048576 bytes"},
		"a manifest that trickles": {intercept: onGet("manifests", endlessly([]byte(" "), 50*time.Millisecond)), reason: lookup.Timeout},
		"a config that trickles":   {intercept: onGet("blobs", endlessly([]byte(" "), 50*time.Millisecond)), reason: lookup.Timeout},
		"a malformed manifest": {intercept: onGet("manifests", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", string(types.DockerManifestSchema2))
			_, _ = w.Write([]byte(`{"config": `))
		}), reason: lookup.RegistryError},
		"another manifest than the digest says": {intercept: onGet("manifests", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", string(types.DockerManifestSchema2))
			_, _ = w.Write([]byte(`{"schemaVersion": 2}`))
		}), reason: lookup.RegistryError, says: "doesn't have the requested digest"},
		"another config than the digest says": {intercept: onGet("blobs", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"config": {"Entrypoint": ["/evil"]}}`))
		}), reason: lookup.RegistryError, says: "doesn't have the requested digest"},
	} {
		t.Run(name, func(t *testing.T) {
			server := registrytest.New(t)
			registrytest.Push(t, server.Image("app"), registrytest.NewImage(t, registrytest.AMD64, []string{"/entry"}, nil))
			var behaves atomic.Bool
			server.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
				return !behaves.Load() && test.intercept != nil && test.intercept(w, r)
			}
			if test.image == "" {
				test.image = "app"
			}
			asked := newLookup(anonymous)
			query := lookup.Query{Image: server.Image(test.image), Namespace: "a"}
			budget := ample
			if test.reason == lookup.Timeout {
				budget = 2 * time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), budget)
			defer cancel()
			allocated := allocatedBy(func() {
				_, err := asked.Lookup(ctx, query)
				registrytest.RequireReason(t, err, test.reason, fmt.Sprintf("%q", query.Image), `namespace "a"`, test.says)
			})
			require.Less(t, allocated, uint64(32<<20), "bytes allocated, by our side and the registry's")

			behaves.Store(true)
			got, err := asked.Lookup(t.Context(), lookup.Query{Image: server.Image("app"), Namespace: "b"})
			require.NoError(t, err, "nothing of it was kept")
			require.Equal(t, []string{"/entry"}, got.Configs[0].Entrypoint)
		})
	}
}

func allocatedBy(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestAHostThatDoesntAnswerIsUnreachable(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	for name, image := range map[string]string{
		"a closed port":             strings.TrimPrefix(server.URL, "http://") + "/app",
		"a name that doesn't exist": "registry.invalid/app",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: image})
			registrytest.RequireReason(t, err, lookup.Unreachable, "correct the registry's name")
		})
	}
}

func TestARegistryThatWantsFewerRequestsIsLeftAlone(t *testing.T) {
	server := registrytest.New(t)
	asked := 0
	server.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		asked++
		return status(http.StatusTooManyRequests, "Retry-After", time.Now().Add(30*time.Second).UTC().Format(http.TimeFormat))(w, r)
	}
	_, err := newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.Image("app")})
	var failure *lookup.Error
	require.ErrorAs(t, err, &failure)
	require.InDelta(t, 30*time.Second, failure.RetryAfter, float64(2*time.Second))
	require.Equal(t, 1, asked, "nothing is tried again at once")
}

func TestARegistryIsNotAskedAgainForALookupWhoseTimeRanOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Int64
		asked := lookup.NewRegistry(anonymous, transport(func(r *http.Request) (*http.Response, error) {
			if r.Context().Err() != nil {
				late.Add(1)
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		}), lookup.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := asked.Lookup(ctx, lookup.Query{Image: "registry.example/app"})
		registrytest.RequireReason(t, err, lookup.Timeout)
		require.Equal(t, time.Second, time.Since(began))
		require.Zero(t, late.Load())
	})
}

type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
