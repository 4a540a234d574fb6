// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Such as a DNS server that a NetworkPolicy blocks.
func TestADNSServerThatDoesNotRespondDelaysNothing(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	silence := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("udp", silent.LocalAddr().String())
	}}
	service := httptest.NewTLSServer(http.NotFoundHandler())
	defer service.Close()
	_, port, err := net.SplitHostPort(service.Listener.Addr().String())
	require.NoError(t, err)
	d := &dialer{ip: "127.0.0.1", tls: &tls.Config{InsecureSkipVerify: true}, resolver: silence}
	for range 2 {
		began := time.Now()
		connection, err := d.dial(t.Context(), "tcp", net.JoinHostPort("logs.test.svc", port))
		require.NoError(t, err)
		require.NoError(t, connection.Close())
		require.Less(t, time.Since(began), dialTimeout-time.Second)
		require.True(t, d.byIP.Load())
	}
}
