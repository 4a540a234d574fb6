// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are documented in docs/operating-logs.md.
type metrics struct {
	records, bytes, refused, failures, unknown prometheus.Counter
	gaps                                       *prometheus.CounterVec // by reason
}

func newMetrics(registry prometheus.Registerer, q *queue, now func() time.Time) *metrics {
	m := metricsOf("export", "records", "Writes of streams that are left to the next scan, because too many streams have something to send.")
	for _, reason := range []string{gapDropped, gapDeleted, gapMissing, gapRefused} {
		m.gaps.WithLabelValues(reason) // so that increase() sees the first one
	}
	registry.MustRegister(m.records, m.bytes, m.refused, m.gaps, m.failures, m.unknown)
	lag(registry, "export", q, now)
	return m
}

// newSpanMetrics is newMetrics for spans. They have no bytes and no gaps, so these aren't
// registered.
func newSpanMetrics(registry prometheus.Registerer, q *queue, now func() time.Time) *metrics {
	m := metricsOf("traces", "spans", "Writes of events that are left to the next scan, because too many containers have something to tell.")
	registry.MustRegister(m.records, m.refused, m.failures, m.unknown)
	lag(registry, "traces", q, now)
	return m
}

// metricsOf makes the metrics of a signal, such as "traces", which sends things, such as "spans".
func metricsOf(signal, things, postponed string) *metrics {
	prefix := "entrypointer_logs_" + signal + "_"
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
	}
	sent := strings.ToUpper(things[:1]) + things[1:]
	return &metrics{
		records:  counter(things+"_total", sent+" that the destination has taken."),
		bytes:    counter("bytes_total", "Bytes of output that the destination has taken."),
		refused:  counter("refused_"+things+"_total", sent+" that the destination has refused for good."),
		failures: counter("failures_total", "Requests that failed, and are sent again."),
		unknown:  counter("postponed_total", postponed),
		gaps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "gaps_total", Help: "Records of bytes that were dropped, deleted, missing or refused.",
		}, []string{"reason"}),
	}
}

// lag registers what waits in a queue.
func lag(registry prometheus.Registerer, of string, q *queue, now func() time.Time) {
	for name, gauge := range map[string]struct {
		help  string
		value func() float64
	}{
		"lag_seconds": {"How long ago the oldest bytes were stored that aren't sent.", func() float64 {
			since, _, _ := q.lag()
			if since.IsZero() {
				return 0
			}
			return max(0, now().Sub(since).Seconds())
		}},
		"lag_bytes": {"Bytes that are stored and not sent.", func() float64 {
			_, bytes, _ := q.lag()
			return float64(bytes)
		}},
		"streams": {"Streams that have something to send, or had a moment ago.", func() float64 {
			_, _, jobs := q.lag()
			return float64(jobs)
		}},
	} {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "entrypointer_logs_" + of + "_" + name, Help: gauge.help}, gauge.value))
	}
}
