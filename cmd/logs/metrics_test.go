// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/keeper"
	"github.com/entrypointer/entrypointer/internal/logs/storage"
)

// A describer is a registry of the possible metrics, rather than of the current ones.
type describer struct {
	prometheus.Registerer
	rows []string
}

var description = regexp.MustCompile(`fqName: "([^"]*)", .* constLabels: \{(?:(\w+)="[^}]*)?\}, variableLabels: \{([^}]*)\}`)

// MustRegister implements prometheus.Registerer.
func (d *describer) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		descriptions := make(chan *prometheus.Desc, 1)
		c.Describe(descriptions)
		parts := description.FindStringSubmatch((<-descriptions).String())
		kind := "gauge"
		switch c.(type) {
		case prometheus.Histogram, *prometheus.HistogramVec:
			kind = "histogram"
		case *prometheus.CounterVec, prometheus.Counter, prometheus.CounterFunc: // as a gauge may be
			if strings.HasSuffix(parts[1], "_total") {
				kind = "counter"
			}
		}
		var labels []string
		for label := range strings.SplitSeq(parts[2]+","+parts[3], ",") {
			if label != "" {
				labels = append(labels, "`"+label+"`")
			}
		}
		d.rows = append(d.rows, "| `"+parts[1]+"` | "+kind+" | "+strings.Join(labels, ", ")+" |")
	}
}

func TestTheTableOfMetricsIsComplete(t *testing.T) {
	t.Parallel()
	logger, d := slog.New(slog.DiscardHandler), &describer{}
	_ = storage.Measured(nil, d)
	storage.MeasureSpace(nil, d)
	api.New(nil, nil, logger).RegisterMetrics(d)
	_ = keeper.New(nil, logger, d)
	registerBuild(d)
	registerConnections(d, map[string]*port{"pods": podsPort(nil, api.New(nil, nil, logger))})
	page, err := os.ReadFile("../../docs/logs.md")
	require.NoError(t, err)
	var rows []string
	for line := range strings.SplitSeq(string(page), "\n") {
		if strings.HasPrefix(line, "| `entrypointer_logs_") {
			rows = append(rows, line[:strings.LastIndex(strings.TrimSuffix(line, " |"), " |")+2])
		}
	}
	slices.Sort(d.rows)
	slices.Sort(rows)
	require.Equal(t, strings.Join(d.rows, "\n"), strings.Join(rows, "\n"))
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
