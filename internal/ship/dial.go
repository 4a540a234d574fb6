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
	"time"
)

// dialTimeout bounds the way to one address: to find it, to connect, and to know who
// is there.
const dialTimeout = 5 * time.Second

// A dialer finds the log service by its name, and by its IP address where that leads
// nowhere, or to somebody else: a pod may have another DNS than the cluster's. By
// either, it is known by its name and its CA.
type dialer struct {
	ip   string // "" if there is none
	tls  *tls.Config
	byIP bool // which led there the last time
}

// dial is for http.Transport. A client has one request at a time, so nobody else dials.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	name, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if d.ip == "" || d.ip == name {
		return d.connect(ctx, network, address)
	}
	var failures []error
	for range 2 {
		at := address
		if d.byIP {
			at = net.JoinHostPort(d.ip, port)
		}
		connection, err := d.connect(ctx, network, at)
		if err == nil {
			return connection, nil
		}
		if d.byIP {
			err = fmt.Errorf("by its IP address: %w", err)
		}
		failures = append(failures, err)
		d.byIP = !d.byIP
	}
	return nil, errors.Join(failures...)
}

func (d *dialer) connect(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return (&tls.Dialer{Config: d.tls}).DialContext(ctx, network, address)
}
