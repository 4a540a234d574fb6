// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package serve serves webhooks over TLS, and stops without refusing a request.
//
// An API server keeps its connections to a webhook, and sends requests over them as long
// as they are open, also after the endpoint has been removed from the Service.
// knative.dev/pkg's own server drains until no request has come for a while. Under load
// that never happens, and the server ends by SIGKILL, with requests under way. This
// server closes each connection with the response to its next request, so that the
// following requests go to other replicas, and its draining has a time limit.
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/wait"
	"knative.dev/pkg/network/handlers"

	"github.com/entrypointer/entrypointer/internal/connections"
)

const (
	// responseTimeout limits the time from the header of a request to the end of its
	// response: more than the longest timeout of a webhook. It is also the time in which a
	// client sends a body: net/http reads what is left of a short one before it answers.
	responseTimeout = 45 * time.Second
	// headerTimeout limits the time of a handshake, and of a header.
	headerTimeout = 10 * time.Second
	// maxHeader is the longest header, in bytes: at level debug, knative.dev/pkg logs all
	// of it.
	maxHeader = 16 << 10
	// lastAnswers is the time for the last requests under way: the longest timeout of the
	// injector's webhooks.
	lastAnswers = 10 * time.Second
	// pollInterval is the time between two checks of Uncalled while the server drains.
	pollInterval = 100 * time.Millisecond
)

// Server serves until it is told to stop.
type Server struct {
	Handler http.Handler
	TLS     *tls.Config
	Logger  *zap.SugaredLogger
	// Connections bounds the open connections. Nil stands for any number.
	Connections *connections.Limiter
	// Ready returns an error as long as requests can't reach the server. Probes fail
	// until it returns nil. A nil function makes the server ready from the start.
	Ready func() error
	// Quiet is the time without a request after which draining ends: long enough for
	// every node to learn that the endpoint is gone.
	Quiet time.Duration
	// Longest is the time after which draining ends in any case.
	Longest time.Duration
	// Uncalled reports whether no API server sends requests any more, which ends
	// draining. A nil function stands for false.
	Uncalled func() bool
}

// Run serves on listener until ctx is done, then drains, and returns after the last
// response. While it drains, probes fail.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	drainer := &handlers.Drainer{Inner: s.Handler, QuietPeriod: s.Quiet, HealthCheck: s.healthCheck()}
	var draining atomic.Bool
	server := &http.Server{ //nolint:gosec // connections.Bind bounds the time of headers
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if draining.Load() {
				w.Header().Set("Connection", "close")
			}
			drainer.ServeHTTP(w, r)
		}),
		TLSConfig:      s.TLS,
		ErrorLog:       connections.ErrorLog(s.Logger.Debugw, s.Logger.Errorw),
		MaxHeaderBytes: maxHeader,
	}
	serve := connections.Bind(server, listener, s.Connections, connections.Timeouts{Header: headerTimeout, Body: responseTimeout, Response: responseTimeout})
	ended := make(chan error, 1)
	go func() { ended <- serve() }()
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

// healthCheck responds to probes, and logs each reason of unreadiness once.
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
			s.Logger.Infow("Not ready for requests", zap.String("reason", now))
		}
	}
}

// drain returns when no more requests come, when no API server calls the webhooks, or
// after the longest time.
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
