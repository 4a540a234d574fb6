// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package serve serves webhooks over TLS, and stops without refusing a request.
//
// An API server keeps its connections to a webhook, and sends requests over
// them as long as there are any, also after the endpoint is gone from the
// Service. knative.dev/pkg's own server drains until no request has come for a
// while. Under load that never happens, and it ends by SIGKILL, with requests
// under way. This one closes each connection with the answer to its next
// request, so that requests go to other replicas, and stops after a while in any case.
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/wait"
	"knative.dev/pkg/network/handlers"
)

const (
	// headerTimeout is what a client may take to send the header of a request.
	headerTimeout = time.Minute
	// maxHeader is how long it may be, in bytes: at level debug, knative.dev/pkg logs all of it.
	maxHeader = 16 << 10
	// lastAnswers is what the last requests may take that are under way: the
	// longest that an API server waits for one of our webhooks.
	lastAnswers = 10 * time.Second
	// pollInterval is how often a server that drains looks whether it is uncalled.
	pollInterval = 100 * time.Millisecond
)

// Server serves until it is told to stop.
type Server struct {
	Handler http.Handler
	TLS     *tls.Config
	Logger  *zap.SugaredLogger
	// Ready returns an error as long as requests can't reach the server, nil if they
	// can. Probes fail until then. Without it, the server is ready from the start.
	Ready func() error
	// Quiet is the time without a request after which draining ends: long
	// enough for every node to have heard that the endpoint is gone.
	Quiet time.Duration
	// Longest is the time after which draining ends in any case.
	Longest time.Duration
	// Uncalled reports whether no API server sends requests any more, so that draining
	// ends. Without it, an API server always may.
	Uncalled func() bool
}

// Run serves on listener until ctx is done, then drains, and returns when every
// request is answered. While it drains, probes fail.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	drainer := &handlers.Drainer{Inner: s.Handler, QuietPeriod: s.Quiet, HealthCheck: s.healthCheck()}
	var draining atomic.Bool
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if draining.Load() {
				w.Header().Set("Connection", "close")
			}
			drainer.ServeHTTP(w, r)
		}),
		TLSConfig:         s.TLS,
		ErrorLog:          log.New(&errorLog{s.Logger}, "", 0),
		ReadHeaderTimeout: headerTimeout,
		MaxHeaderBytes:    maxHeader,
		// No HTTP/2: API servers don't speak it to webhooks, and others could
		// open any number of streams.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving webhooks on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	s.Logger.Infof("Draining, for %v at most", s.Longest)
	draining.Store(true)
	s.drain(context.WithoutCancel(ctx), drainer)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswers)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return fmt.Errorf("answering the last requests: %w", err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving webhooks on %s: %w", listener.Addr(), err)
	}
	return nil
}

// healthCheck answers probes, and logs each reason not to be ready once.
func (s *Server) healthCheck() http.HandlerFunc {
	if s.Ready == nil {
		return nil
	}
	var reason atomic.Value
	return func(w http.ResponseWriter, _ *http.Request) {
		var now string
		if err := s.Ready(); err != nil {
			now = err.Error()
			http.Error(w, now, http.StatusServiceUnavailable)
		}
		switch before := reason.Swap(now); {
		case before == now:
		case now == "":
			s.Logger.Info("Ready for requests")
		default:
			s.Logger.Infow("Not ready for requests yet", zap.String("reason", now))
		}
	}
}

// drain returns when requests have ceased, when no API server sends any, or at the
// latest after the longest time.
func (s *Server) drain(ctx context.Context, drainer *handlers.Drainer) {
	ctx, cancel := context.WithTimeout(ctx, s.Longest)
	defer cancel()
	ceased := make(chan struct{})
	go func() {
		drainer.Drain()
		close(ceased)
	}()
	if s.Uncalled != nil {
		go func() {
			uncalled := func(context.Context) (bool, error) { return s.Uncalled(), nil }
			if wait.PollUntilContextCancel(ctx, pollInterval, true, uncalled) == nil {
				s.Logger.Info("Ended draining early: the webhook configurations are gone")
				cancel()
			}
		}()
	}
	select {
	case <-ceased:
	case <-ctx.Done():
		drainer.Reset()
	}
}

// errorLog passes on what net/http has to say.
type errorLog struct{ logger *zap.SugaredLogger }

// Write implements io.Writer. A handshake that fails is the client's problem,
// or happens before there is a certificate.
func (e *errorLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if strings.HasPrefix(text, "http: TLS handshake error") {
		e.logger.Debug(text)
	} else {
		e.logger.Error(text)
	}
	return len(line), nil
}
