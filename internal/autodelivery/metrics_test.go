// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package autodelivery

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/entrypointer/entrypointer/internal/metricstest"
)

func TestThePageListsEveryMetricAndReason(t *testing.T) {
	provider, exported := metricstest.NewProvider(t)
	counts, err := newMetrics(provider, func() Verdict { return Verdict{Reason: Unproven} })
	require.NoError(t, err)
	counts.started(t.Context())
	metricstest.RequireDocumented(t, exported, "entrypointer_delivery_")
	page, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	for _, reason := range []Reason{Proven, NotConfigured, NotPermitted, NodesUnknown, APIServerTooOld, NoNodes, NodeUnfit, CanaryFailed, Unproven} {
		require.Contains(t, string(page), "| `"+string(reason)+"` |")
	}
}

func TestTheMetricSaysTheReasonOfTheMoment(t *testing.T) {
	reader := metric.NewManualReader()
	verdict := Verdict{Reason: NodeUnfit}
	counts, err := newMetrics(metric.NewMeterProvider(metric.WithReader(reader)), func() Verdict { return verdict })
	require.NoError(t, err)
	collect := func() map[string]int64 {
		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &all))
		values := map[string]int64{}
		for _, m := range all.ScopeMetrics[0].Metrics {
			require.NotEmpty(t, m.Description)
			var points []metricdata.DataPoint[int64]
			switch data := m.Data.(type) {
			case metricdata.Gauge[int64]:
				points = data.DataPoints
			case metricdata.Sum[int64]:
				points = data.DataPoints
			}
			for _, point := range points {
				for _, label := range point.Attributes.ToSlice() {
					values[strings.TrimPrefix(m.Name, "entrypointer.delivery.")+" "+label.Value.AsString()] = point.Value
				}
			}
		}
		return values
	}
	require.Equal(t, map[string]int64{"image_volumes NodeUnfit": 0}, collect())
	verdict.Reason = Proven
	counts.started(t.Context())
	counts.started(t.Context())
	counts.ended(t.Context(), failed)
	require.Equal(t, map[string]int64{"image_volumes Proven": 1, "canaries Started": 2, "canaries Failed": 1}, collect(),
		"of the reason of before, nothing is left")
}
