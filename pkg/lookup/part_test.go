// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"context"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/registrytest"
)

// A registry may be so slow that a single lookup never gets to the end.
func TestALookupWhoseTimeRanOutIsContinuedByTheNextLookup(t *testing.T) {
	image := registrytest.NewImage(t, registrytest.AMD64, []string{"/amd64"}, nil)
	index := mutate.AppendManifests(empty.Index, indexed(image, registrytest.AMD64),
		indexed(registrytest.NewImage(t, registrytest.ARM64, []string{"/arm64"}, nil), registrytest.ARM64))
	for name, pushed := range map[string]remote.Taggable{"an image": image, "an index": index} {
		t.Run(name, func(t *testing.T) {
			server := registrytest.New(t)
			registrytest.Push(t, server.Image("app"), pushed)
			var left atomic.Int64
			server.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodHead || r.URL.Path == "/v2/" || left.Add(-1) >= 0 {
					return false
				}
				<-r.Context().Done()
				return true
			}
			asked := newLookup(anonymous)
			lookUp := func() (*lookup.Image, error) {
				left.Store(1) // manifest or config for each lookup
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				return asked.Lookup(ctx, lookup.Query{Image: server.Image("app"), Namespace: "a"})
			}
			got, err := lookUp()
			for range 100 {
				if err != nil {
					require.Contains(t, []lookup.Reason{lookup.Timeout, lookup.Busy}, err.(*lookup.Error).Reason) //nolint:errorlint,forcetypeassert // that is its type
					got, err = lookUp()
				}
			}
			require.NoError(t, err)
			require.Equal(t, []string{"/amd64"}, got.Configs[0].Entrypoint)
		})
	}
}

func indexed(image v1.Image, platform v1.Platform) mutate.IndexAddendum {
	return mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{MediaType: types.OCIManifestSchema1, Platform: &platform}}
}

// What is kept of a private image belongs to those that may open it.
func TestALookupIsNotContinuedForANamespaceThatMayNotOpenTheImage(t *testing.T) {
	server := registrytest.New(t)
	registrytest.Push(t, server.Image("app"), registrytest.NewImage(t, registrytest.AMD64, []string{"/secret"}, nil))
	password := registrytest.RequireBasic("user", "right")
	var configs atomic.Int64
	server.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return password(w, r)
		}
		if configs.Add(1) > 1 {
			return false // for anybody
		}
		<-r.Context().Done()
		return true
	}
	asked := newLookup(func(_ context.Context, query lookup.Query, _ authn.Resource) iter.Seq2[authn.Authenticator, error] {
		if query.Namespace == "a" {
			return credentials(&authn.Basic{Username: "user", Password: "right"})
		}
		return credentials(authn.Anonymous)
	})
	ctx, cancel := withBudget(t)
	defer cancel()
	_, err := asked.Lookup(ctx, lookup.Query{Image: server.Image("app"), Namespace: "a"})
	registrytest.RequireReason(t, err, lookup.Timeout)
	require.Equal(t, int64(1), server.Manifests.Load())
	_, err = asked.Lookup(t.Context(), lookup.Query{Image: server.Image("app"), Namespace: "b"})
	registrytest.RequireReason(t, err, lookup.Unauthorized)
	require.Equal(t, int64(1), configs.Load())
}

func TestAWrongMediaTypeIsNotKept(t *testing.T) {
	server := registrytest.New(t)
	registrytest.Push(t, server.Image("app"), registrytest.NewImage(t, registrytest.AMD64, []string{"/entry"}, nil))
	var corrected atomic.Bool
	asked := lookup.NewRegistry(anonymous, transport(func(r *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err == nil && !corrected.Load() && strings.Contains(r.URL.Path, "/manifests/") {
			resp.Header.Set("Content-Type", string(types.OCIImageIndex))
		}
		return resp, err
	}), lookup.Options{})
	_, err := asked.Lookup(t.Context(), lookup.Query{Image: server.Image("app"), Namespace: "a"})
	registrytest.RequireReason(t, err, lookup.NotAnImage)
	corrected.Store(true)
	got, err := asked.Lookup(t.Context(), lookup.Query{Image: server.Image("app"), Namespace: "a"})
	require.NoError(t, err)
	require.Equal(t, []string{"/entry"}, got.Configs[0].Entrypoint)
}
