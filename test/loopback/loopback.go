// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package loopback chooses addresses of this machine for the servers of tests.
package loopback

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
)

const (
	// The ports that FreeAddress chooses from. Linux gives connections ports from 32768 on
	// (net.ipv4.ip_local_port_range), so none of them takes a port before its server listens.
	lowestPort, ports = 20_000, 12_768
	portTries         = 20
)

// chosenPorts is how many ports this process has chosen, from a random one on. None is chosen
// twice, because servers that start at the same time don't listen yet.
var chosenPorts atomic.Int64

func init() { chosenPorts.Store(rand.Int64N(ports)) } //nolint:gosec // G404: it is no secret

// FreeAddress returns an address, as in "127.0.0.1:20123", on which nobody listens.
func FreeAddress(ctx context.Context) (string, error) {
	var errs []error
	for range portTries {
		port := lowestPort + chosenPorts.Add(1)%ports
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return listener.Addr().String(), listener.Close()
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("looking for a port on which nobody listens: %w", errors.Join(errs...))
}

// FreeAddressFor is FreeAddress for a test, which fails without one.
func FreeAddressFor(t testing.TB) string {
	t.Helper()
	address, err := FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return address
}
