// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// Connections bounds the open connections of a server, in total and of each address.
//
// A server closes connections that wait for a request, to make room for a new one: of its
// address if that has as many as it may, otherwise of the address that has the most. So an
// address that opens connections without end loses its own. If all of them are in the
// middle of a request, the new connection is closed.
type Connections struct {
	total, ofAddress int

	mu        sync.Mutex
	count     int
	addresses map[string]map[*connection]struct{}
}

// NewConnections returns Connections with these limits.
func NewConnections(total, ofAddress int) *Connections {
	return &Connections{total: total, ofAddress: ofAddress, addresses: map[string]map[*connection]struct{}{}}
}

// A connection is an open connection. The time since which it waits for a request is zero
// during a request.
type connection struct {
	net.Conn

	owner   *Connections
	address string
	waits   time.Time
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.owner.remove(c)
	return c.Conn.Close()
}

// Listen returns a listener that accepts only as many connections as there may be.
func (c *Connections) Listen(listener net.Listener) net.Listener { return &limited{listener, c} }

type limited struct {
	net.Listener

	connections *Connections
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if added := l.connections.add(accepted); added != nil {
			return added, nil
		}
		_ = accepted.Close()
	}
}

// StateChanged is the ConnState of an http.Server.
func (c *Connections) StateChanged(served net.Conn, state http.ConnState) {
	if encrypted, ok := served.(*tls.Conn); ok {
		served = encrypted.NetConn()
	}
	connection, ok := served.(*connection)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateActive:
		connection.waits = time.Time{}
	case http.StateIdle:
		connection.waits = time.Now()
	default:
	}
}

// add returns nil if there is no room for a connection.
func (c *Connections) add(accepted net.Conn) *connection {
	added := &connection{Conn: accepted, owner: c, address: host(accepted.RemoteAddr()), waits: time.Now()}
	closed, ok := c.makeRoom(added.address)
	if closed != nil {
		_ = closed.Conn.Close()
	}
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remember(added)
	return added
}

// makeRoom reports whether there is room for one more connection of an address, and
// returns the connection that has to be closed for it.
func (c *Connections) makeRoom(address string) (closed *connection, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.addresses[address]) >= c.ofAddress:
		closed = longestWaiting(c.addresses[address])
	case c.count >= c.total:
		closed = longestWaiting(c.largest())
	default:
		return nil, true
	}
	if closed == nil {
		return nil, false
	}
	c.forget(closed)
	return closed, true
}

// largest returns the connections of the address that has the most that wait.
func (c *Connections) largest() (most map[*connection]struct{}) {
	waiting := 0
	for _, connections := range c.addresses {
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

func (c *Connections) remember(added *connection) {
	if c.addresses[added.address] == nil {
		c.addresses[added.address] = map[*connection]struct{}{}
	}
	c.addresses[added.address][added] = struct{}{}
	c.count++
}

func (c *Connections) remove(closed *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(closed)
}

// forget may be called twice for a connection.
func (c *Connections) forget(closed *connection) {
	connections := c.addresses[closed.address]
	if _, ok := connections[closed]; !ok {
		return
	}
	c.count--
	if delete(connections, closed); len(connections) == 0 {
		delete(c.addresses, closed.address)
	}
}

// host returns an address without the port.
func host(address net.Addr) string {
	if host, _, err := net.SplitHostPort(address.String()); err == nil {
		return host
	}
	return address.String()
}
