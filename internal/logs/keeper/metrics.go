// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import "github.com/prometheus/client_golang/prometheus"

// metrics are those of docs/logs.md.
type metrics struct {
	duration                           prometheus.Histogram
	joined, deleted, removed, failures prometheus.Counter
	faulty                             prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "entrypointer_logs_keeper_" + name, Help: help})
	}
	m := &metrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "entrypointer_logs_keeper_duration_seconds", Help: "How long looks at all streams took.", Buckets: prometheus.ExponentialBuckets(0.01, 4, 9),
		}),
		joined:   counter("joined_total", "Objects that were made by joining others."),
		deleted:  counter("deleted_total", "Objects that were deleted because others have what they had."),
		removed:  counter("removed_streams_total", "Streams that were deleted because they aren't kept any more."),
		failures: counter("failures_total", "Looks at all streams of which some failed."),
		faulty: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "entrypointer_logs_config_faulty", Help: "1 if config-logs can't be read, and what was read before is in force.",
		}),
	}
	registry.MustRegister(m.duration, m.joined, m.deleted, m.removed, m.failures, m.faulty)
	return m
}
