// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"context"
	"io"
	"iter"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/lookup"
)

// ample is the budget of lookups that must not end by time: on a busy machine
// a TLS handshake was seen to take three seconds.
const ample = time.Minute

// A registryServer is a real registry, in this process, behind a handler that
// may misbehave, and that counts.
type registryServer struct {
	host      string
	manifests atomic.Int64 // GETs of manifests
	heads     atomic.Int64 // HEADs of manifests
	intercept func(http.ResponseWriter, *http.Request) bool
}

func newRegistry(t *testing.T) *registryServer {
	t.Helper()
	s := &registryServer{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.intercept != nil && s.intercept(w, r) {
			return
		}
		if strings.Contains(r.URL.Path, "/manifests/") {
			switch r.Method {
			case http.MethodGet:
				s.manifests.Add(1)
			case http.MethodHead:
				s.heads.Add(1)
			}
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.host = strings.TrimPrefix(server.URL, "http://")
	return s
}

func (s *registryServer) image(repo string) string { return s.host + "/" + repo }

func push(t *testing.T, ref string, what remote.Taggable) {
	t.Helper()
	parsed, err := name.ParseReference(ref)
	require.NoError(t, err)
	require.NoError(t, remote.Push(parsed, what))
}

func newImage(t *testing.T, platform v1.Platform, entrypoint, cmd []string) v1.Image {
	t.Helper()
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant,
		Config: v1.Config{Entrypoint: entrypoint, Cmd: cmd},
	})
	require.NoError(t, err)
	return image
}

var (
	amd64 = v1.Platform{OS: "linux", Architecture: "amd64"}
	arm64 = v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}
)

// credentials are what is to be tried, whoever asks.
func credentials(some ...authn.Authenticator) iter.Seq2[authn.Authenticator, error] {
	return func(yield func(authn.Authenticator, error) bool) {
		for _, credential := range some {
			if !yield(credential, nil) {
				return
			}
		}
	}
}

// anonymous asks without credentials, whoever asks.
func anonymous(context.Context, lookup.Query, authn.Resource) iter.Seq2[authn.Authenticator, error] {
	return credentials(authn.Anonymous)
}

func newLookup(credentials lookup.Credentials) *lookup.Registry {
	return lookup.NewRegistry(credentials, remote.DefaultTransport, nil)
}

// requireBasic lets one user in, by basic authentication.
func requireBasic(user, password string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if gotUser, gotPassword, _ := r.BasicAuth(); gotUser == user && gotPassword == password {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
}

func requireReason(t *testing.T, err error, reason lookup.Reason, says ...string) {
	t.Helper()
	var failure *lookup.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, reason, failure.Reason, "error: %v", err)
	for _, words := range append(says, "set command:") {
		require.ErrorContains(t, err, words)
	}
}

// answering is a transport that never leaves this process, for registries
// whose names aren't ours to serve.
type answering http.HandlerFunc

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	a(w, r)
	answer := w.Result()
	answer.Request = r
	return answer, nil
}
