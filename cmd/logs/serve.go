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
	// headerTimeout is what a client may take for its handshake, and for a header.
	headerTimeout = 10 * time.Second
	// maxHeader is how long a header may be, in bytes: a token has some 1.5 KiB.
	maxHeader = 16 << 10
	// idleTimeout is how long a client is kept that sends nothing. Handshakes cost
	// more than connections, up to a number.
	idleTimeout = 2 * time.Minute
	// connectionsAtOnce have some 40 KiB each.
	connectionsAtOnce = 2000
	// lastAnswers is what a server that stops leaves to requests that are under way:
	// longer than a body may take to come (internal/logs/api). The Deployment's
	// terminationGracePeriodSeconds is longer.
	lastAnswers = 20 * time.Second
	// checkLimit is what a look at the storage may take.
	checkLimit = 2 * time.Second
)

// serveLogs serves until ctx is done and all requests are answered. Those who
// follow are cut, and come again to the successor.
func serveLogs(ctx context.Context, logger *slog.Logger, listener net.Listener, service *api.Server, front api.FrontProxy, ca *authority.Authority) error {
	mux := http.NewServeMux()
	mux.Handle("/", service.Handler())
	mux.Handle("/apis/", service.Aggregated(front))
	server := &http.Server{
		Handler: service.Measured(mux),
		// The API server has a certificate, which front verifies. Pods have none.
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: ca.GetCertificate, ClientAuth: tls.RequestClientCert},
		ErrorLog:          log.New(&errorLog{logger}, "", 0),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		Protocols:         oneAtATime(),
	}
	server.RegisterOnShutdown(service.CutFollowers)
	listener = netutil.LimitListener(listener, connectionsAtOnce)
	return untilDone(ctx, server, func() error { return server.ServeTLS(listener, "", "") })
}

// oneAtATime is HTTP/1: of HTTP/2, each connection could have 250 requests and a
// megabyte of their bodies.
func oneAtATime() *http.Protocols {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &protocols
}

// serveProbes answers the kubelet, and Prometheus.
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
	return untilDone(ctx, server, func() error { return server.Serve(listener) })
}

// ready says whether logs can be written and read: the storage is there, and a certificate.
func ready(store *streams.Store, ca *authority.Authority) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, checkLimit)
		defer cancel()
		_, err := ca.GetCertificate(nil)
		return errors.Join(err, store.Check(ctx))
	}
}

// untilDone serves until ctx is done, and leaves requests that are under way a while.
func untilDone(ctx context.Context, server *http.Server, serve func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- serve() }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswers)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return fmt.Errorf("answering the last requests: %w", errors.Join(err, server.Close()))
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

// errorLog passes on what net/http has to say.
type errorLog struct{ logger *slog.Logger }

// Write implements io.Writer. A handshake that fails is the client's problem.
func (e *errorLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if strings.HasPrefix(text, "http: TLS handshake error") {
		e.logger.Debug(text)
	} else {
		e.logger.Error(text)
	}
	return len(line), nil
}
