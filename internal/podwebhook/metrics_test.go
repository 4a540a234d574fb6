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
	m.eventDropped(dropQueueFull)
	metricstest.RequireDocumented(t, exported, "entrypointer_pod_", "entrypointer_lookup_", "entrypointer_events_")
}

// Without a value before it, the first one is no increase, and rate() doesn't see it.
func TestTheFirstDefectIsAnIncrease(t *testing.T) {
	provider, exported := metricstest.NewProvider(t)
	m, err := newMetrics(provider)
	require.NoError(t, err)
	defects := func() float64 {
		families, err := exported.Gather()
		require.NoError(t, err)
		for _, family := range families {
			if family.GetName() == "entrypointer_pod_decisions_total" {
				require.Len(t, family.GetMetric(), 1)
				require.Contains(t, family.GetMetric()[0].String(), `"InternalError"`)
				return family.GetMetric()[0].GetCounter().GetValue()
			}
		}
		return -1
	}
	require.Zero(t, defects())
	m.decided(t.Context(), pod.InternalError, "", "", time.Millisecond)
	require.InDelta(t, 1, defects(), 0)
}

func TestThePageListsWhyEventsAreDropped(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	for _, reason := range []dropReason{dropQueueFull, dropNamespaceRate, dropOwnerRate, dropFailed} {
		require.Contains(t, string(page), "| `"+string(reason)+"` |")
	}
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
