// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"math"
	"net"
	"net/http"
	"time"
)

// idleTimeout limits the time in which a connection waits for its first or next request.
// Clients close it earlier, so that they meet no closed connection: API servers, and proxies
// in Go, after 90 seconds. They open some that they use later, or never, and their request
// fails if it is the first on one that is closed: net/http repeats only requests on
// connections that were used before. A Limiter bounds those that wait; up to its bounds,
// keeping connections is cheaper than new handshakes.
const idleTimeout = 2 * time.Minute

// Timeouts bound what a client of a server may take.
type Timeouts struct {
	// Header is for a TLS handshake, and for the header of a request from its first byte.
	Header time.Duration
	// Body is for the body of a request, from the end of its header. It is the handler's to
	// bound if it is 0.
	Body time.Duration
	// Response is for all from the end of the header to that of the response. It is the
	// handler's to bound if it is 0.
	Response time.Duration
}

// Bind returns a function by which a server serves a listener, like http.Server.Serve, with
// TLS if it has a TLSConfig, and within bounds. A nil limiter stands for any number of
// connections.
//
// It is HTTP/1 only: with HTTP/2, a client could have any number of requests in flight over
// one connection. API servers don't call webhooks by HTTP/2.
func Bind(server *http.Server, listener net.Listener, limiter *Limiter, timeouts Timeouts) (serve func() error) {
	if limiter == nil {
		limiter = New(math.MaxInt, math.MaxInt)
	}
	handler := server.Handler
	if timeouts.Body > 0 {
		server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// http.Server.ReadTimeout would count from the start of a connection. A deadline
			// without a body would end a request that takes longer.
			if r.Body != http.NoBody {
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeouts.Body)) // the connection may be closed
			}
			handler.ServeHTTP(w, r)
		})
	}
	server.ReadHeaderTimeout, server.IdleTimeout, server.WriteTimeout = idleTimeout, idleTimeout, timeouts.Response
	server.ConnState = limiter.stateChanged
	server.Protocols = &http.Protocols{}
	server.Protocols.SetHTTP1(true)
	encrypted := server.TLSConfig != nil
	listener = limiter.listen(listener, timeouts.Header, encrypted)
	if encrypted {
		return func() error { return server.ServeTLS(listener, "", "") }
	}
	return func() error { return server.Serve(listener) }
}
