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

// dialTimeout bounds the way to one address: to find it, to connect, and to know who
// is there.
const dialTimeout = 5 * time.Second

// hurry is how long the name is tried before the IP address is: a DNS server that a pod
// can't reach never answers, and the end of a container that has printed nothing waits
// for a second.
const hurry = 300 * time.Millisecond

// A dialer finds the log service by its name, and by its IP address where that leads
// nowhere, or to somebody else: a pod may have another DNS than the cluster's. By
// either, it is known by its name and its CA.
type dialer struct {
	ip       string // "" if there is none
	tls      *tls.Config
	resolver *net.Resolver // nil is that of the system
	byIP     atomic.Bool   // which led there the last time
}

// dial is for http.Transport.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if d.ip == "" || d.ip == host {
		return d.connect(ctx, network, address, dialTimeout)
	}
	name, ip := way{at: address, limit: dialTimeout}, way{at: net.JoinHostPort(d.ip, port), limit: dialTimeout, byIP: true}
	ways := []way{{at: address, limit: hurry}, ip, name}
	if d.byIP.Load() {
		ways = []way{ip, name}
	}
	var failures []error
	for _, w := range ways {
		connection, err := d.connect(ctx, network, w.at, w.limit)
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

// A way is where to try to connect, and for how long.
type way struct {
	at    string
	limit time.Duration
	byIP  bool
}

func (d *dialer) connect(ctx context.Context, network, address string, limit time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return (&tls.Dialer{NetDialer: &net.Dialer{Resolver: d.resolver}, Config: d.tls}).DialContext(ctx, network, address)
}
