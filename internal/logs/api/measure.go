// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are listed in docs/operating-logs.md. No label has a value that a client chooses, or a
// namespace: tenants could create any number of values.
type metrics struct {
	requests                  *prometheus.CounterVec
	latency                   *prometheus.HistogramVec
	refused                   *prometheus.CounterVec
	accepted, stored, dropped prometheus.Counter
	searched                  prometheus.Counter
	following                 prometheus.Gauge
}

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "entrypointer_logs_" + name, Help: help})
	}
	return &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "entrypointer_logs_requests_total", Help: "Requests that were answered.",
		}, []string{"path", "method", "code"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "entrypointer_logs_request_duration_seconds", Help: "How long responses took, without those that follow a stream or search.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"path", "method"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "entrypointer_logs_refused_total", Help: "Requests that were refused because of a limit.",
		}, []string{"reason"}),
		accepted:  counter("accepted_bytes_total", "Bytes that were accepted, before compression."),
		stored:    counter("stored_bytes_total", "Bytes that were stored, as quotas count them."),
		dropped:   counter("dropped_bytes_total", "Bytes that were marked as dropped."),
		searched:  counter("searched_bytes_total", "Bytes that were searched, before compression."),
		following: prometheus.NewGauge(prometheus.GaugeOpts{Name: "entrypointer_logs_followers", Help: "Readers that follow a stream."}),
	}
}

// RegisterMetrics registers the metrics of the server.
func (s *Server) RegisterMetrics(registry prometheus.Registerer) {
	m := s.metrics
	registry.MustRegister(m.requests, m.latency, m.refused, m.accepted, m.stored, m.dropped, m.searched, m.following,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "entrypointer_logs_readers", Help: "Readers, including those that follow a stream."},
			func() float64 { return float64(s.readers.InUse()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "entrypointer_logs_searches", Help: "Searches that run."},
			func() float64 { return float64(s.searches.InUse()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "entrypointer_logs_waiting_streams", Help: "Streams that are to be created when the storage has recovered."},
			func() float64 { return float64(s.postponed.count()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "entrypointer_logs_reading_bytes", Help: "Memory that responses to readers hold."},
			func() float64 { return float64(s.streams.HeldBytes()) }))
}

// The values of label reason: the limits that valid requests can exceed.
const (
	reasonBusy    = "Busy"
	reasonQuota   = "Quota"
	reasonStreams = "Streams"
	reasonPieces  = "Pieces"
	reasonFull    = "Full"
)

// InstrumentHandler counts the requests to a handler by the patterns of its ServeMux.
func (s *Server) InstrumentHandler(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, answer := time.Now(), &statusRecorder{ResponseWriter: w, code: http.StatusOK}
		completed := false
		defer func() { // also if the handler panics to cut off the response
			path, method := pathOf(r)
			code := strconv.Itoa(answer.code)
			if !completed {
				code = "cut"
			}
			s.metrics.requests.WithLabelValues(path, method, code).Inc()
			if query := r.URL.Query(); query.Get("follow") == "" && !query.Has("grep") {
				s.metrics.latency.WithLabelValues(path, method).Observe(time.Since(began).Seconds())
			}
		}()
		handler.ServeHTTP(answer, r)
		completed = true
	})
}

// pathOf returns the labels path and method of a request.
func pathOf(r *http.Request) (path, method string) {
	method, path, found := strings.Cut(r.Pattern, " ")
	if !found || path == "/" {
		return "other", "other" // an unknown method is the client's choice
	}
	return path, method
}

// A statusRecorder records the status code of a response.
type statusRecorder struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (a *statusRecorder) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// Unwrap is called by http.ResponseController.
func (a *statusRecorder) Unwrap() http.ResponseWriter { return a.ResponseWriter }
