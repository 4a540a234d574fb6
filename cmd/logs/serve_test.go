// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/entrypointer/entrypointer/internal/connections"
	"github.com/entrypointer/entrypointer/internal/connections/connectionstest"
	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/authority"
	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

// API servers, and proxies in front of the page, keep a connection for 90 seconds, and don't
// repeat the first request on it.
func TestAConnectionToAPortIsServedForAsLongAsClientsKeepItUnused(t *testing.T) {
	t.Parallel()
	logger := slog.New(slog.DiscardHandler)
	for name, serve := range map[string]func(context.Context, *port, *authority.Authority) error{
		"logs": func(ctx context.Context, p *port, ca *authority.Authority) error {
			return serveLogs(ctx, logger, api.New(nil, nil, logger), p, ca)
		},
		"the page": func(ctx context.Context, p *port, ca *authority.Authority) error {
			return servePage(ctx, logger, p, ca)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ca, err := authority.Open(t.Context(), fake.NewClientset().CoreV1().Secrets(endpoint.Namespace), serverNames...)
				require.NoError(t, err)
				listener := make(connectionstest.Listener)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() {
					ended <- serve(ctx, &port{
						listener: listener, limiter: connections.New(1, 1),
						handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
					}, ca)
				}()
				ours := listener.Dial()
				connection := tls.Client(ours, &tls.Config{InsecureSkipVerify: true})
				require.NoError(t, connection.Handshake())
				for range 2 { // before its first request and its next
					time.Sleep(90 * time.Second)
					request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://logs/logs", nil)
					require.NoError(t, err)
					require.NoError(t, request.Write(connection))
					response, err := http.ReadResponse(bufio.NewReader(connection), request)
					require.NoError(t, err)
					require.NoError(t, response.Body.Close())
					require.Equal(t, http.StatusNoContent, response.StatusCode)
				}
				stop()
				// The server's last words wait for a reader, and block what the clock of the bubble waits for.
				_, err = io.Copy(io.Discard, ours)
				require.NoError(t, err)
				require.NoError(t, <-ended)
				require.NoError(t, ours.Close())
			})
		})
	}
}
