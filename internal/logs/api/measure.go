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

// metrics are those of docs/logs.md. No label has what a client chooses, nor a
// namespace, of which there may be as many as tenants like.
type metrics struct {
	requests                  *prometheus.CounterVec
	latency                   *prometheus.HistogramVec
	refused                   *prometheus.CounterVec
	accepted, stored, dropped prometheus.Counter
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
			Name: "entrypointer_logs_request_duration_seconds", Help: "How long answers took that don't follow a stream.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"path", "method"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "entrypointer_logs_refused_total", Help: "Requests that weren't done because of a limit.",
		}, []string{"reason"}),
		accepted:  counter("accepted_bytes_total", "Bytes that were accepted, before compression."),
		stored:    counter("stored_bytes_total", "Bytes that were stored, as quotas count them."),
		dropped:   counter("dropped_bytes_total", "Bytes that were marked as dropped."),
		following: prometheus.NewGauge(prometheus.GaugeOpts{Name: "entrypointer_logs_followers", Help: "Readers that wait for more."}),
	}
}

// Measure has a registry know what the server does.
func (s *Server) Measure(registry prometheus.Registerer) {
	m := s.metrics
	registry.MustRegister(m.requests, m.latency, m.refused, m.accepted, m.stored, m.dropped, m.following,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "entrypointer_logs_readers", Help: "Readers, those that wait for more included."},
			func() float64 { return float64(len(s.readers)) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "entrypointer_logs_reading_bytes", Help: "Memory that answers to readers hold."},
			func() float64 { return float64(s.streams.Held()) }))
}

// Why a request isn't done, whose client has done nothing wrong.
const (
	becauseBusy    = "Busy"
	becauseQuota   = "Quota"
	becauseStreams = "Streams"
	becausePieces  = "Pieces"
)

// Measured counts the requests that a handler answers, by the pattern that it has for them.
func (s *Server) Measured(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, answer := time.Now(), &answered{ResponseWriter: w, code: http.StatusOK}
		whole := false
		defer func() { // also of an answer that is cut off
			path, method := pathOf(r)
			code := strconv.Itoa(answer.code)
			if !whole {
				code = "cut"
			}
			s.metrics.requests.WithLabelValues(path, method, code).Inc()
			if r.URL.Query().Get("follow") == "" {
				s.metrics.latency.WithLabelValues(path, method).Observe(time.Since(began).Seconds())
			}
		}()
		handler.ServeHTTP(answer, r)
		whole = true
	})
}

// pathOf is what this service calls the path and the method of a request.
func pathOf(r *http.Request) (path, method string) {
	method, path, found := strings.Cut(r.Pattern, " ")
	if !found || path == "/" {
		return "other", "other" // which has a method that a client makes up
	}
	return path, method
}

// An answered response remembers its code.
type answered struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (a *answered) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }
