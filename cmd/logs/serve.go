// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/entrypointer/entrypointer/internal/connections"
	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/authority"
	"github.com/entrypointer/entrypointer/internal/logs/frontproxy"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

const (
	// headerTimeout bounds a TLS handshake, and the header of a request. internal/logs/api
	// bounds bodies and responses.
	headerTimeout = 10 * time.Second
	// maxHeader bounds the header of a request, in bytes: a token has some 1.5 KiB.
	maxHeader = 16 << 10
	// The connections of pods, of some 40 KiB each. Each container that sends keeps one, and
	// connections of several pods can come from one address, as those of a node's host
	// network do: half of all. Where they have to be closed to make room for others, pods
	// connect again.
	maxConnections = 2000
	// The connections of API servers: each request that they proxy takes one.
	maxProxied, maxProxiedOfAddress = 1500, 1250
	// shutdownTimeout is how long a stopping server waits for requests in flight: longer
	// than the timeout of a body (internal/logs/api), and less than the Deployment's
	// terminationGracePeriodSeconds.
	shutdownTimeout = 20 * time.Second
	// checkTimeout bounds the check of the storage by the readiness probe.
	checkTimeout = 2 * time.Second
)

// A port of the API, with limits of its own: pods that open connections without end keep
// no API server from asking.
type port struct {
	listener net.Listener
	handler  http.Handler
	limiter  *connections.Limiter
	// verify returns nil if the client's certificate is good. Without verify, clients send
	// none.
	verify func([]*x509.Certificate) error
}

// podsPort is the port for pods, and for readers with a token. It has so many connections at
// most.
func podsPort(listener net.Listener, service *api.Server, most int) *port {
	return &port{listener: listener, handler: service.Handler(), limiter: connections.New(most, most/2)}
}

// proxiedPort is the port for what API servers proxy. A client that shows another
// certificate gets no further than the handshake.
func proxiedPort(listener net.Listener, service *api.Server, front *frontproxy.Proxy) *port {
	return &port{
		listener: listener, handler: service.Aggregated(front), verify: front.Verify,
		limiter: connections.New(maxProxied, maxProxiedOfAddress),
	}
}

// tls returns the settings of a port's handshakes.
func (p *port) tls(ca *authority.Authority) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: ca.GetCertificate}
	if p.verify != nil {
		config.ClientAuth = tls.RequireAnyClientCert
		config.VerifyConnection = func(state tls.ConnectionState) error { return p.verify(state.PeerCertificates) }
	}
	return config
}

// serveLogs serves a port until ctx is done and all requests are answered. Followers are
// cut off, and reconnect to another replica.
func serveLogs(ctx context.Context, logger *slog.Logger, service *api.Server, p *port, ca *authority.Authority) error {
	server := &http.Server{ //nolint:gosec // connections.Bind bounds the time of headers
		Handler:        service.InstrumentHandler(p.handler),
		TLSConfig:      p.tls(ca),
		ErrorLog:       connections.ErrorLog(logger.Debug, logger.Error),
		MaxHeaderBytes: maxHeader,
	}
	server.RegisterOnShutdown(service.CutFollowers)
	return serveUntilDone(ctx, server, connections.Bind(server, p.listener, p.limiter, connections.Timeouts{Header: headerTimeout}))
}

// registerConnections registers the metrics of the ports' connections.
func registerConnections(registry prometheus.Registerer, ports map[string]*port) {
	for name, p := range ports {
		labels := prometheus.Labels{"port": name}
		registry.MustRegister(
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "entrypointer_logs_connections", ConstLabels: labels, Help: "Open connections.",
			}, func() float64 { return float64(p.limiter.Open()) }),
			prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: "entrypointer_logs_closed_connections_total", ConstLabels: labels, Help: "Connections that were closed because there were too many.",
			}, func() float64 { return float64(p.limiter.Closed()) }))
	}
}

// serveProbes serves the probes of the kubelet, and the metrics.
func serveProbes(ctx context.Context, logger *slog.Logger, listener net.Listener, check func(context.Context) error, metrics prometheus.Gatherer) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := check(r.Context()); err != nil {
			logger.Error("The log service isn't ready", "error", err)
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: headerTimeout}))
	server := &http.Server{Handler: mux, MaxHeaderBytes: maxHeader} //nolint:gosec // connections.Bind bounds the time of headers
	return serveUntilDone(ctx, server, connections.Bind(server, listener, nil, connections.Timeouts{Header: headerTimeout}))
}

// readinessCheck returns a check that logs can be written and read: the storage works,
// and there is a certificate.
func readinessCheck(store *streams.Store, ca *authority.Authority) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		_, err := ca.GetCertificate(nil)
		return errors.Join(err, store.Check(ctx))
	}
}

// serveUntilDone serves until ctx is done, and then waits for requests in flight.
func serveUntilDone(ctx context.Context, server *http.Server, serve func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- serve() }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return fmt.Errorf("waiting for the last requests: %w", errors.Join(err, server.Close()))
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}
