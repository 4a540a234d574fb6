// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package metricstest has tests read the injector's metrics as a Prometheus server gets
// them, which spells their names in another way than the code does: a unit is appended to
// them, and _total to those of counters.
package metricstest

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/otlptranslator"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/entrypointer/entrypointer/test/markdown"
)

// NewProvider returns a provider of meters, and what it exports, with the strategy of
// knative.dev/pkg/observability/metrics, which serves the injector's metrics. A counter or
// a histogram is exported once it has a value.
func NewProvider(t *testing.T) (metric.MeterProvider, prometheus.Gatherer) {
	t.Helper()
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	require.NoError(t, err)
	return sdk.NewMeterProvider(sdk.WithReader(reader)), registry
}

// RequireDocumented requires that docs/metrics.md lists the exported metrics, and of those
// whose names begin with one of the prefixes no others.
func RequireDocumented(t *testing.T, exported prometheus.Gatherer, prefixes ...string) {
	t.Helper()
	documented, err := markdown.Metrics("../../docs/metrics.md", prefixes...)
	require.NoError(t, err)
	require.Equal(t, documented, gather(t, exported))
}

// gather returns the exported metrics, each with the labels of its first series.
func gather(t *testing.T, exported prometheus.Gatherer) (metrics []markdown.Metric) {
	t.Helper()
	families, err := exported.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "target_info" { // of OpenTelemetry: what the process is
			continue
		}
		require.NotEmpty(t, family.GetHelp(), family.GetName())
		m := markdown.Metric{Name: family.GetName(), Type: strings.ToLower(family.GetType().String())}
		for _, label := range family.GetMetric()[0].GetLabel() {
			if !strings.HasPrefix(label.GetName(), "otel_scope_") {
				m.Labels = append(m.Labels, label.GetName())
			}
		}
		slices.Sort(m.Labels)
		metrics = append(metrics, m)
	}
	markdown.SortMetrics(metrics)
	return metrics
}
