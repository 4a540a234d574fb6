// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/export"
	"github.com/entrypointer/entrypointer/internal/logs/keeper"
	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/test/markdown"
)

// A describer is a registry of the possible metrics, rather than of the current ones.
type describer struct {
	prometheus.Registerer
	metrics []markdown.Metric
}

var description = regexp.MustCompile(`fqName: "([^"]*)", .* constLabels: \{(?:(\w+)="[^}]*)?\}, variableLabels: \{([^}]*)\}`)

// MustRegister implements prometheus.Registerer.
func (d *describer) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		descriptions := make(chan *prometheus.Desc, 1)
		c.Describe(descriptions)
		parts := description.FindStringSubmatch((<-descriptions).String())
		m := markdown.Metric{Name: parts[1], Type: "gauge"}
		switch c.(type) {
		case prometheus.Histogram, *prometheus.HistogramVec:
			m.Type = "histogram"
		case *prometheus.CounterVec, prometheus.Counter, prometheus.CounterFunc: // as a gauge may be
			if strings.HasSuffix(parts[1], "_total") {
				m.Type = "counter"
			}
		}
		for label := range strings.SplitSeq(parts[2]+","+parts[3], ",") {
			if label != "" {
				m.Labels = append(m.Labels, label)
			}
		}
		slices.Sort(m.Labels)
		d.metrics = append(d.metrics, m)
	}
}

func TestTheTableOfMetricsIsComplete(t *testing.T) {
	t.Parallel()
	logger, d := slog.New(slog.DiscardHandler), &describer{}
	_ = storage.Measured(nil, d)
	storage.MeasureSpace(nil, d)
	api.New(nil, nil, logger).RegisterMetrics(d)
	_ = keeper.New(nil, nil, logger, d)
	_, err := newExporters(api.New(nil, nil, logger), nil, nil, nil, logger, d, settings{
		export: export.Options{URL: "http://collector:4318/v1/logs", Timeout: time.Second}, traces: export.Options{URL: "http://collector:4318/v1/traces"},
	})
	require.NoError(t, err)
	registerBuild(d)
	registerConnections(d, map[string]*port{"pods": podsPort(nil, api.New(nil, nil, logger), maxConnections)})
	documented, err := markdown.Metrics("../../docs/operating-logs.md", "entrypointer_")
	require.NoError(t, err)
	markdown.SortMetrics(d.metrics)
	require.Equal(t, documented, d.metrics)
}

func TestNoMetricHasALabelThatAClientChooses(t *testing.T) {
	t.Parallel()
	s := runs(t, t.TempDir())
	defer s.stop()
	path := s.stream()
	status, _ := s.send(http.MethodPatch, path+"/data", "pod", strings.NewReader("hello"), "Content-Range", "bytes 0-4/5")
	require.Equal(t, http.StatusAccepted, status)
	for _, strange := range []string{"/whatever", path + "/nothing"} {
		_, _ = s.send("STRANGE", strange, "pod", nil)
	}
	_, _ = s.send(http.MethodGet, path+"/data", "reader", nil)
	response, err := http.Get("http://" + s.probes + "/metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	for _, line := range []string{
		`entrypointer_logs_requests_total{code="202",method="PATCH",path="/logs/{id}/data"} 1`,
		`entrypointer_logs_requests_total{code="200",method="GET",path="/logs/{id}/data"} 1`,
		`entrypointer_logs_requests_total{code="404",method="other",path="other"} 2`,
		`entrypointer_logs_accepted_bytes_total 5`,
		`entrypointer_logs_storage_duration_seconds_count{call="Create"}`,
		`entrypointer_logs_storage_free_bytes `,
		`entrypointer_logs_storage_free_inodes `,
		`entrypointer_logs_build_info{version="devel"} 1`,
	} {
		require.Contains(t, string(page), line)
	}
	for _, chosen := range []string{"STRANGE", "whatever", "tenant", path} {
		require.NotContains(t, string(page), chosen)
	}
}
