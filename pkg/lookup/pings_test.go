// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"context"
	"iter"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/registrytest"
)

func TestARegistryIsPingedOnceForManyLookups(t *testing.T) {
	server := registrytest.New(t)
	registrytest.Push(t, server.Image("app"), registrytest.NewImage(t, registrytest.AMD64, []string{"/entry"}, nil))
	var pings atomic.Int64
	password := registrytest.RequireBasic("user", "right")
	server.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v2/" {
			pings.Add(1)
		}
		return password(w, r)
	}
	asked := newLookup(func(_ context.Context, query lookup.Query, _ authn.Resource) iter.Seq2[authn.Authenticator, error] {
		if query.Namespace == "b" {
			return credentials(authn.Anonymous)
		}
		return credentials(&authn.Basic{Username: "user", Password: "right"})
	})
	for range 3 {
		_, err := asked.Lookup(t.Context(), lookup.Query{Image: server.Image("app"), Namespace: "a"})
		require.NoError(t, err)
	}
	require.Equal(t, int64(1), pings.Load())

	// A refusal may be due to the old answer, so the registry is pinged once more.
	_, err := asked.Lookup(t.Context(), lookup.Query{Image: server.Image("app"), Namespace: "b"})
	registrytest.RequireReason(t, err, lookup.Unauthorized)
	require.Equal(t, int64(2), pings.Load())
}

func TestARegistryThatSpeaksPlainHTTPIsAskedForTLSOnceForManyLookups(t *testing.T) {
	server := registrytest.New(t)
	registrytest.Push(t, server.Image("app"), registrytest.NewImage(t, registrytest.AMD64, []string{"/entry"}, nil))
	asked := newLookup(anonymous)
	before := server.Connections.Load()
	for range 3 {
		_, err := asked.Lookup(t.Context(), lookup.Query{Image: server.Image("app")})
		require.NoError(t, err)
	}
	require.Equal(t, int64(2), server.Connections.Load()-before, "with TLS, and without")
}

func TestARegistryThatBeginsToWantPasswordsGetsThem(t *testing.T) {
	for what, wants := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"basic":  registrytest.RequireBasic("user", "right"),
		"bearer": requireBearer("user", "right"),
	} {
		t.Run(what, func(t *testing.T) {
			server := registrytest.New(t)
			registrytest.Push(t, server.Image("app"), registrytest.NewImage(t, registrytest.AMD64, []string{"/entry"}, nil))
			asked := newLookup(func(context.Context, lookup.Query, authn.Resource) iter.Seq2[authn.Authenticator, error] {
				return credentials(&authn.Basic{Username: "user", Password: "right"})
			})
			_, err := asked.Lookup(t.Context(), lookup.Query{Image: server.Image("app")})
			require.NoError(t, err)
			server.Intercept = wants
			_, err = asked.Lookup(t.Context(), lookup.Query{Image: server.Image("app")})
			require.NoError(t, err)
			server.Intercept = nil
			_, err = asked.Lookup(t.Context(), lookup.Query{Image: server.Image("app")})
			require.NoError(t, err)
		})
	}
}

// requireBearer lets one user in, by a token that the registry itself exchanges for the
// password.
func requireBearer(user, password string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		gotUser, gotPassword, _ := r.BasicAuth()
		switch {
		case r.URL.Path == "/token" && gotUser == user && gotPassword == password:
			_, _ = w.Write([]byte(`{"token":"of-the-user"}`))
			return true
		case r.Header.Get("Authorization") == "Bearer of-the-user":
			return false
		default:
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
	}
}
