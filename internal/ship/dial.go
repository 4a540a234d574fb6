// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// dialTimeout bounds the connection to one address: the DNS look-up, the TCP connection
// and the TLS handshake.
const dialTimeout = 5 * time.Second

// nameHeadStart is the time that the name is tried before the IP address. A DNS server
// behind a NetworkPolicy never responds, and a container without output waits only a
// second for the log service when it ends.
const nameHeadStart = 300 * time.Millisecond

// A dialer connects to the log service by its name. If that fails, or leads to another
// server, it connects by the IP address: the pod may use another DNS than the cluster's.
// In both cases, TLS verifies the name and the CA.
type dialer struct {
	ip       string // "" if there is none
	tls      *tls.Config
	resolver *net.Resolver // nil for the system's
	byIP     atomic.Bool   // the last connection was made by the IP address
}

// dial is the DialTLSContext of an http.Transport.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if d.ip == "" || d.ip == host {
		return d.connect(ctx, network, address, dialTimeout)
	}
	name, ip := route{address: address, limit: dialTimeout}, route{address: net.JoinHostPort(d.ip, port), limit: dialTimeout, byIP: true}
	ways := []route{{address: address, limit: nameHeadStart}, ip, name}
	if d.byIP.Load() {
		ways = []route{ip, name}
	}
	var failures []error
	for _, w := range ways {
		connection, err := d.connect(ctx, network, w.address, w.limit)
		if err == nil {
			d.byIP.Store(w.byIP)
			return connection, nil
		}
		if w.byIP {
			err = fmt.Errorf("by its IP address: %w", err)
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures[len(failures)-2:]...)
}

// A route is an address to try, and the time for it.
type route struct {
	address string
	limit   time.Duration
	byIP    bool
}

func (d *dialer) connect(ctx context.Context, network, address string, limit time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return (&tls.Dialer{NetDialer: &net.Dialer{Resolver: d.resolver}, Config: d.tls}).DialContext(ctx, network, address)
}
