// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// collected are the metrics that there are, with their labels.
func collected(t *testing.T) map[string][]attribute.Key {
	t.Helper()
	reader := metric.NewManualReader()
	m, err := newMetrics(metric.NewMeterProvider(metric.WithReader(reader)))
	require.NoError(t, err)
	m.decided(t.Context(), pod.Injected, pod.Tekton, pod.DeliveryImageVolume, time.Millisecond)
	m.lookedUp(t.Context(), string(lookup.Cached), time.Millisecond)
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	found := map[string][]attribute.Key{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		require.NotEmpty(t, m.Description)
		var labels attribute.Set
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			labels = data.DataPoints[0].Attributes
		case metricdata.Histogram[float64]:
			labels = data.DataPoints[0].Attributes
		}
		for _, label := range labels.ToSlice() {
			found[m.Name] = append(found[m.Name], label.Key)
		}
	}
	return found
}

func TestThePageListsEveryMetricWithItsLabels(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	for name, labels := range collected(t) {
		// As the Prometheus exporter spells it; a unit or _total follows.
		name = "`" + strings.ReplaceAll(name, ".", "_")
		row := slices.IndexFunc(strings.Split(string(page), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "| "+name+"_total`") || strings.HasPrefix(line, "| "+name+"_seconds`")
		})
		require.GreaterOrEqual(t, row, 0, "docs/metrics.md doesn't list %s", name)
		for _, label := range labels {
			require.Contains(t, strings.Split(string(page), "\n")[row], "`"+string(label)+"`")
		}
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
