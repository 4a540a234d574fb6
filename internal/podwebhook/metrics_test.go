// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/metricstest"
	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

func TestThePageListsEveryMetricWithItsLabels(t *testing.T) {
	provider, exported := metricstest.NewProvider(t)
	m, err := newMetrics(provider)
	require.NoError(t, err)
	m.decided(t.Context(), pod.Injected, pod.Tekton, pod.DeliveryImageVolume, time.Millisecond)
	m.lookedUp(t.Context(), string(lookup.Cached), time.Millisecond)
	metricstest.RequireDocumented(t, exported, "entrypointer_pod_", "entrypointer_lookup_")
}

func TestThePageListsEveryResultOfALookup(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	for _, source := range []lookup.Source{lookup.Static, lookup.Remembered, lookup.Cached, lookup.Fetched, lookup.Opened} {
		require.Contains(t, string(page), "`"+string(source)+"`")
	}
	for _, reason := range []lookup.Reason{
		lookup.InvalidReference, lookup.NotAllowed, lookup.CredentialsError, lookup.Unauthorized, lookup.NotFound,
		lookup.TooManyRequests, lookup.RegistryError, lookup.Untrusted, lookup.Unreachable, lookup.Timeout, lookup.Busy, lookup.NotAnImage,
	} {
		require.Contains(t, string(page), "`"+string(reason)+"`")
	}
}
