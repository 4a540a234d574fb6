// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/authority"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

const (
	// headerTimeout bounds a TLS handshake, and the header of a request.
	headerTimeout = 10 * time.Second
	// maxHeader bounds the header of a request, in bytes: a token has some 1.5 KiB.
	maxHeader = 16 << 10
	// idleTimeout is how long a connection without requests is kept. Up to maxConnections,
	// keeping connections is cheaper than new handshakes.
	idleTimeout = 2 * time.Minute
	// maxConnections bounds the connections, of some 40 KiB each.
	maxConnections = 2000
	// shutdownTimeout is how long a stopping server waits for requests in flight: longer
	// than the timeout of a body (internal/logs/api), and less than the Deployment's
	// terminationGracePeriodSeconds.
	shutdownTimeout = 20 * time.Second
	// checkTimeout bounds the check of the storage by the readiness probe.
	checkTimeout = 2 * time.Second
)

// serveLogs serves until ctx is done and all requests are answered. Followers are cut
// off, and reconnect to another replica.
func serveLogs(ctx context.Context, logger *slog.Logger, listener net.Listener, service *api.Server, front api.FrontProxy, ca *authority.Authority) error {
	mux := http.NewServeMux()
	mux.Handle("/", service.Handler())
	mux.Handle("/apis/", service.Aggregated(front))
	server := &http.Server{
		Handler: service.InstrumentHandler(mux),
		// The API server sends a certificate, which front verifies. Pods send none.
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: ca.GetCertificate, ClientAuth: tls.RequestClientCert},
		ErrorLog:          log.New(&errorLog{logger}, "", 0),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		Protocols:         http1Only(),
	}
	server.RegisterOnShutdown(service.CutFollowers)
	listener = netutil.LimitListener(listener, maxConnections)
	return serveUntilDone(ctx, server, func() error { return server.ServeTLS(listener, "", "") })
}

// http1Only returns the protocols of the server. With HTTP/2, a connection could have 250
// requests in flight, with a megabyte of bodies.
func http1Only() *http.Protocols {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &protocols
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
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader}
	return serveUntilDone(ctx, server, func() error { return server.Serve(listener) })
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

// errorLog logs the errors of net/http.
type errorLog struct{ logger *slog.Logger }

// Write implements io.Writer. A failed handshake is the client's problem, so it is logged
// at level debug.
func (e *errorLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if strings.HasPrefix(text, "http: TLS handshake error") {
		e.logger.Debug(text)
	} else {
		e.logger.Error(text)
	}
	return len(line), nil
}
