// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package registrytest provides an image registry for tests.
package registrytest

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/lookup"
)

// A Server is a real registry in this process. Its handler counts requests, and can
// misbehave.
type Server struct {
	Host      string
	Manifests atomic.Int64 // GETs of manifests
	Heads     atomic.Int64 // HEADs of manifests
	// Connections is the number of connections that clients have made, Push's among them.
	Connections atomic.Int64
	// Intercept answers a request instead of the registry, or returns false.
	Intercept func(http.ResponseWriter, *http.Request) bool
}

// New starts a Server, which stops with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.Intercept != nil && s.Intercept(w, r) {
			return
		}
		if strings.Contains(r.URL.Path, "/manifests/") {
			switch r.Method {
			case http.MethodGet:
				s.Manifests.Add(1)
			case http.MethodHead:
				s.Heads.Add(1)
			}
		}
		inner.ServeHTTP(w, r)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.Connections.Add(1)
		}
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	s.Host = strings.TrimPrefix(server.URL, "http://")
	return s
}

// Image returns the reference of an image in this registry.
func (s *Server) Image(repository string) string { return s.Host + "/" + repository }

// Push pushes an image or an index.
func Push(t testing.TB, ref string, what remote.Taggable) {
	t.Helper()
	parsed, err := name.ParseReference(ref)
	require.NoError(t, err)
	require.NoError(t, remote.Push(parsed, what))
}

// NewImage returns an image without layers.
func NewImage(t testing.TB, platform v1.Platform, entrypoint, cmd []string) v1.Image {
	t.Helper()
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant,
		Config: v1.Config{Entrypoint: entrypoint, Cmd: cmd},
	})
	require.NoError(t, err)
	return image
}

// The platforms of most images.
var (
	AMD64 = v1.Platform{OS: "linux", Architecture: "amd64"}
	ARM64 = v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}
)

// RequireBasic lets one user in, by basic authentication.
func RequireBasic(user, password string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if gotUser, gotPassword, _ := r.BasicAuth(); gotUser == user && gotPassword == password {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
}

// RequireReason fails the test unless err is a lookup's error with this reason, with
// these words, and with a way out.
func RequireReason(t testing.TB, err error, reason lookup.Reason, says ...string) {
	t.Helper()
	var failure *lookup.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, reason, failure.Reason, "error: %v", err)
	for _, words := range append(says, "set command:") {
		require.ErrorContains(t, err, words)
	}
}

// Answering is a transport that stays in this process, for registries whose names the
// test can't serve.
type Answering http.HandlerFunc

// RoundTrip implements http.RoundTripper.
func (a Answering) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	a(w, r)
	answer := w.Result()
	answer.Request = r
	return answer, nil
}
