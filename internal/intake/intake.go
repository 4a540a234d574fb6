// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package intake takes the requests of webhooks in, within bounds of memory and time.
//
// Any pod of the cluster can send a request to a webhook, and any tenant can have an API
// server send one. A limit of the body's length isn't enough, because Go's decoders make
// a hundred bytes of memory of one: each "{}" of a list of containers becomes 400 bytes.
// So a request passes four checks before a webhook decodes it. The first ones cost least:
//
//  1. The caller shows an API server's certificate, where the operator requires one.
//  2. The body comes in time. Memory for it is taken as its bytes come.
//  3. The body has no more values than the largest object that makes sense. It is scanned
//     once.
//  4. There is memory for what the body becomes when it is decoded.
//
// Namespaces share memory, and so do addresses of callers: a namespace that needs much
// waits for itself, and a caller at one address leaves half of the memory to the others.
package intake

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/entrypointer/entrypointer/pkg/tenants"
)

const (
	// defaultPatience is for callers that don't send their timeout: the API server's own
	// default.
	defaultPatience = 10 * time.Second
	// maxPatience is the longest timeout of a webhook.
	maxPatience = 30 * time.Second
	// unreadTimeout limits the time for the body of a request that is refused without it.
	unreadTimeout = time.Second
	// linesPerSecond and linesAtOnce limit the log lines about refused requests, which any
	// pod can cause.
	linesPerSecond, linesAtOnce = 1, 10
)

// Intake is a handler in front of webhooks.
type Intake struct {
	// Ignored reports whether the request's webhook has failurePolicy Ignore: a request
	// that is refused before it reaches such a webhook refuses no object. A nil function
	// stands for false.
	Ignored func(*http.Request) bool

	next    http.Handler
	callers func(*http.Request) *x509.CertPool
	bodies  bodies
	decoded *tenants.Shares
	logger  *zap.SugaredLogger
	lines   flowcontrol.PassiveRateLimiter
	refused metric.Int64Counter
}

// New returns an Intake in front of next. callers returns the CAs of API servers' client
// certificates; if it returns nil, every caller of the request's path is accepted.
func New(next http.Handler, callers func(*http.Request) *x509.CertPool, logger *zap.SugaredLogger, provider metric.MeterProvider) (*Intake, error) {
	refused, err := provider.Meter("github.com/entrypointer/entrypointer").Int64Counter("entrypointer.webhook.refused.requests",
		metric.WithDescription("Requests that were refused before a webhook decoded them."))
	if err != nil {
		return nil, fmt.Errorf("registering a metric: %w", err)
	}
	return &Intake{
		next: next, callers: callers, bodies: newBodies(), decoded: tenants.NewShares(decodedBytes, decodedBytesOfAddress, decodedBytesOfNamespace),
		logger: logger, lines: flowcontrol.NewTokenBucketPassiveRateLimiter(linesPerSecond, linesAtOnce), refused: refused,
	}, nil
}

// ServeHTTP implements http.Handler.
func (i *Intake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := checkCaller(r.TLS, i.callers(r)); err != nil {
		// Without reading the body, so without the UID that an AdmissionReview repeats. API
		// servers show the text of this status to their clients. net/http reads a short body
		// before it answers.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadTimeout))
		i.refuse(w, r, head{}, refusal{unknownCaller, http.StatusForbidden, err})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience(r))
	defer cancel()
	body, head, release, err := i.bodies.read(ctx, w, r)
	defer release()
	if err != nil {
		i.refuse(w, r, head, err)
		return
	}
	if head.uid == "" {
		i.refuse(w, r, head, refusal{malformed, http.StatusBadRequest, errors.New("reading the request: it begins with no request.uid, so it is no AdmissionReview; send one")})
		return
	}
	need, err := measure(body)
	if err != nil {
		i.refuse(w, r, head, err)
		return
	}
	if need > decodedBytesOfNamespace {
		i.refuse(w, r, head, tooMany("it takes up to %d MiB of memory when it is decoded, and %d MiB are the most; make it smaller", need>>20, decodedBytesOfNamespace>>20))
		return
	}
	release, err = i.decoded.Acquire(ctx, need, holders(r, head)...)
	if err != nil {
		i.refuse(w, r, head, refusal{busy, http.StatusServiceUnavailable, fmt.Errorf("waiting for memory: %w; try again", err)})
		return
	}
	defer release()
	defer func() {
		if recovered := recover(); recovered != nil {
			i.refuse(w, r, head, refusal{malformed, http.StatusBadRequest, fmt.Errorf("decoding the request: %v", recovered)})
		}
	}()
	r = r.WithContext(ctx)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	i.next.ServeHTTP(w, r)
}

// patience returns the time after which an API server gives up. It sends that in the URL:
// ?timeout=10s.
func patience(r *http.Request) time.Duration {
	sent, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || sent <= 0 {
		return defaultPatience
	}
	return min(sent, maxPatience)
}

// address returns the address of the request's sender, without the port.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
