// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import "github.com/prometheus/client_golang/prometheus"

// metrics are documented in docs/operating-logs.md.
type metrics struct {
	duration                                                               prometheus.Histogram
	inspected, joined, deleted, trimmed, removed, failures, ledgerFailures prometheus.Counter
	configFaulty, postponed, partitions                                    prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "entrypointer_logs_keeper_" + name, Help: help})
	}
	m := &metrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "entrypointer_logs_keeper_duration_seconds", Help: "How long sweeps over all streams took.", Buckets: prometheus.ExponentialBuckets(0.01, 4, 9),
		}),
		inspected:      counter("inspected_streams_total", "Streams that were listed by themselves, because they were due or had something to do."),
		joined:         counter("joined_total", "Objects that were created by joining others."),
		deleted:        counter("deleted_total", "Objects that were deleted because other objects have their content, or because of their age."),
		trimmed:        counter("trimmed_total", "Objects at the front of streams that were deleted because their namespace had reached its quota."),
		removed:        counter("removed_streams_total", "Streams that were deleted after their retention."),
		failures:       counter("failures_total", "Sweeps that failed for at least one stream."),
		ledgerFailures: counter("ledger_failures_total", "Ledgers and pages of journals that couldn't be used, so that all streams of a partition are listed."),
		configFaulty: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "entrypointer_logs_config_faulty", Help: "1 while config-logs can't be read, and the former limits stay in force.",
		}),
	}
	m.postponed = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "entrypointer_logs_keeper_postponed_streams", Help: "Streams whose retention is over, but which aren't deleted yet because the clock of the storage may be wrong.",
	})
	m.partitions = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "entrypointer_logs_keeper_partitions", Help: "The sixteenths of the streams that this replica maintains.",
	})
	registry.MustRegister(m.duration, m.inspected, m.joined, m.deleted, m.trimmed, m.removed, m.failures, m.ledgerFailures, m.configFaulty, m.postponed, m.partitions)
	return m
}
