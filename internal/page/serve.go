// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/entrypointer/entrypointer/internal/connections"
)

// The bounds of connections. A response may take as long as a page is made, and be sent.
const (
	mostConnections = 64
	headerTimeout   = 5 * time.Second
	bodyTimeout     = 10 * time.Second
	responseTimeout = time.Minute
	maxHeader       = 16 << 10
	lastAnswers     = 2 * time.Second
)

// Serve serves a handler on a listener until ctx is done, and returns once all requests are
// answered or given up.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	var answering sync.WaitGroup
	server := &http.Server{ //nolint:gosec // connections.Bind bounds the time of headers
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answering.Add(1)
			defer answering.Done()
			handler.ServeHTTP(w, r)
		}),
		MaxHeaderBytes: maxHeader,
		ErrorLog:       log.New(io.Discard, "", 0), // of clients that go away
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
	serve := connections.Bind(server, listener, connections.New(mostConnections, mostConnections), connections.Timeouts{
		Header: headerTimeout, Body: bodyTimeout, Response: responseTimeout,
	})
	ended := make(chan error, 1)
	go func() { ended <- serve() }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving the page on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswers)
	defer cancel()
	if err := server.Shutdown(last); err != nil { // a response that takes longer
		_ = server.Close()
	}
	answering.Wait() // their context is done
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the page on %s: %w", listener.Addr(), err)
	}
	return nil
}
