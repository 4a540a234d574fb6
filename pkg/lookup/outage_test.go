// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/registrytest"
)

// A Knative Revision that scales from zero, while the registry is down.
func TestAPodThatOpenedADigestIsAnsweredWhileTheRegistryIsDown(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"no answer":         func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true },
		"too many requests": status(http.StatusTooManyRequests),
		"a fault":           status(http.StatusBadGateway),
		"hangs up": func(w http.ResponseWriter, _ *http.Request) bool {
			if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = connection.Close()
			}
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.New(t)
			image := registrytest.NewImage(t, registrytest.AMD64, []string{"/entry"}, nil)
			registrytest.Push(t, server.Image("app"), image)
			digest, err := image.Digest()
			require.NoError(t, err)
			var down atomic.Bool
			server.Intercept = func(w http.ResponseWriter, r *http.Request) bool { return down.Load() && outage(w, r) }
			asked := newLookup(anonymous)
			opened := lookup.Query{Image: server.Image("app@" + digest.String()), Namespace: "a", ServiceAccount: "s", PullSecrets: []string{"p"}}
			byTag := lookup.Query{Image: server.Image("app"), Namespace: "a", ServiceAccount: "s", PullSecrets: []string{"p"}}
			for _, query := range []lookup.Query{opened, byTag} {
				_, err := asked.Lookup(t.Context(), query)
				require.NoError(t, err)
			}

			down.Store(true)
			soon, cancel := withBudget(t)
			defer cancel()
			got, err := asked.Lookup(soon, opened)
			require.NoError(t, err)
			require.Equal(t, lookup.Opened, got.Source)
			require.Equal(t, []string{"/entry"}, got.Configs[0].Entrypoint)
			require.Equal(t, digest.String(), got.Digest)

			others := []lookup.Query{byTag, opened, opened, opened}
			others[1].Namespace, others[2].ServiceAccount, others[3].PullSecrets = "b", "t", []string{"q"}
			for _, other := range others {
				soon, cancel := withBudget(t)
				_, err := asked.Lookup(soon, other)
				cancel()
				require.ErrorContains(t, err, "set command:", "%+v", other)
			}
		})
	}
}

func TestARegistryThatWithdrawsAnImageIsHeeded(t *testing.T) {
	server := registrytest.New(t)
	image := registrytest.NewImage(t, registrytest.AMD64, []string{"/entry"}, nil)
	registrytest.Push(t, server.Image("app"), image)
	digest, err := image.Digest()
	require.NoError(t, err)
	asked := newLookup(anonymous)
	query := lookup.Query{Image: server.Image("app@" + digest.String())}
	_, err = asked.Lookup(t.Context(), query)
	require.NoError(t, err)
	for code, reason := range map[int]lookup.Reason{http.StatusForbidden: lookup.Unauthorized, http.StatusNotFound: lookup.NotFound} {
		server.Intercept = status(code)
		_, err = asked.Lookup(t.Context(), query)
		registrytest.RequireReason(t, err, reason)
	}
}
