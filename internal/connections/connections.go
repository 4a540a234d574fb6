// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package connections bounds the open connections of a server, in total and of each
// address.
package connections

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// A Limiter bounds the open connections of a server.
//
// The Limiter closes connections that wait for a request, to make room for a new one: of
// its address if that has as many as it may, otherwise of the address that has the most.
// So an address that opens connections without end loses its own. If all of them are in
// the middle of a request, the new connection is closed.
type Limiter struct {
	total, ofAddress int

	mu        sync.Mutex
	count     int
	closed    int64
	addresses map[string]map[*connection]struct{}
}

// New returns a Limiter of so many connections.
func New(total, ofAddress int) *Limiter {
	return &Limiter{total: total, ofAddress: ofAddress, addresses: map[string]map[*connection]struct{}{}}
}

// A connection is an open connection. The time since which it waits for a request is zero
// during a request.
type connection struct {
	net.Conn

	owner   *Limiter
	address string
	waits   time.Time
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.owner.remove(c)
	return c.Conn.Close()
}

// Open returns the number of open connections.
func (l *Limiter) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// Closed returns how many connections were closed because there was no room.
func (l *Limiter) Closed() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Listen returns a listener that accepts only as many connections as there may be.
func (l *Limiter) Listen(listener net.Listener) net.Listener { return &limited{listener, l} }

type limited struct {
	net.Listener

	limiter *Limiter
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if added := l.limiter.add(accepted); added != nil {
			return added, nil
		}
		_ = accepted.Close()
	}
}

// StateChanged is the ConnState of an http.Server.
func (l *Limiter) StateChanged(served net.Conn, state http.ConnState) {
	if encrypted, ok := served.(*tls.Conn); ok {
		served = encrypted.NetConn()
	}
	connection, ok := served.(*connection)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateActive:
		connection.waits = time.Time{}
	case http.StateIdle:
		connection.waits = time.Now()
	default:
	}
}

// add returns nil if there is no room for a connection.
func (l *Limiter) add(accepted net.Conn) *connection {
	added := &connection{Conn: accepted, owner: l, address: host(accepted.RemoteAddr()), waits: time.Now()}
	closed, ok := l.makeRoom(added.address)
	if closed != nil {
		_ = closed.Conn.Close()
	}
	if !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remember(added)
	return added
}

// makeRoom reports whether there is room for one more connection of an address, and
// returns the connection that has to be closed for it.
func (l *Limiter) makeRoom(address string) (closed *connection, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.addresses[address]) >= l.ofAddress:
		closed = longestWaiting(l.addresses[address])
	case l.count >= l.total:
		closed = longestWaiting(l.largest())
	default:
		return nil, true
	}
	l.closed++
	if closed == nil {
		return nil, false
	}
	l.forget(closed)
	return closed, true
}

// largest returns the connections of the address that has the most that wait.
func (l *Limiter) largest() (most map[*connection]struct{}) {
	waiting := 0
	for _, connections := range l.addresses {
		n := 0
		for connection := range connections {
			if !connection.waits.IsZero() {
				n++
			}
		}
		if n > waiting {
			most, waiting = connections, n
		}
	}
	return most
}

// longestWaiting returns nil if no connection waits.
func longestWaiting(connections map[*connection]struct{}) (longest *connection) {
	for connection := range connections {
		if !connection.waits.IsZero() && (longest == nil || connection.waits.Before(longest.waits)) {
			longest = connection
		}
	}
	return longest
}

func (l *Limiter) remember(added *connection) {
	if l.addresses[added.address] == nil {
		l.addresses[added.address] = map[*connection]struct{}{}
	}
	l.addresses[added.address][added] = struct{}{}
	l.count++
}

func (l *Limiter) remove(closed *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(closed)
}

// forget may be called twice for a connection.
func (l *Limiter) forget(closed *connection) {
	connections := l.addresses[closed.address]
	if _, ok := connections[closed]; !ok {
		return
	}
	l.count--
	if delete(connections, closed); len(connections) == 0 {
		delete(l.addresses, closed.address)
	}
}

// host returns an address without the port.
func host(address net.Addr) string {
	if host, _, err := net.SplitHostPort(address.String()); err == nil {
		return host
	}
	return address.String()
}
