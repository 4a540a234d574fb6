// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package connections sets HTTP servers up: it bounds their open connections, in total and of
// each address, and the time that clients may take, and logs their errors.
package connections

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A Limiter bounds the open connections of a server.
//
// The Limiter closes a connection to make room for a new one: one that waits for a request
// if it can, of the new one's address or of one that has more connections. So an address
// that opens connections without end loses its own. A connection in the middle of a
// request is closed only for an address that has fewer; otherwise the new one is closed.
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

// maxHandshake bounds what a client sends before its first request is under way, in bytes.
// Certificates become twenty times as long when they are parsed.
const maxHandshake = 64 << 10

// A connection is an open connection.
type connection struct {
	net.Conn

	owner   *Limiter
	address string
	active  bool      // in the middle of a request
	since   time.Time // since when it is active, or waits

	handshake atomic.Int64 // how much more may come before the first request
	asked     atomic.Bool
	header    *headerTimer
}

var errLongHandshake = errors.New("the client sent more than a handshake and a header take")

// Read implements net.Conn.
func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.asked.Load() && c.handshake.Add(-int64(n)) < 0 {
		return 0, errLongHandshake
	}
	if n > 0 {
		c.header.begin(c.Conn)
	}
	return n, err
}

// SetReadDeadline implements net.Conn.
func (c *connection) SetReadDeadline(t time.Time) error { return c.header.setDeadline(c.Conn, t) }

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

// listen returns a listener that accepts only as many connections as there may be. A client
// may take that long for a header, and for a handshake if it is encrypted.
func (l *Limiter) listen(listener net.Listener, header time.Duration, encrypted bool) net.Listener {
	return &limited{listener, l, header, encrypted}
}

type limited struct {
	net.Listener

	limiter   *Limiter
	header    time.Duration
	encrypted bool
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if added := l.limiter.add(accepted, newHeaderTimer(l.header, l.encrypted)); added != nil {
			return added, nil
		}
		_ = accepted.Close()
	}
}

// stateChanged is the ConnState of an http.Server.
func (l *Limiter) stateChanged(served net.Conn, state http.ConnState) {
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
		connection.asked.Store(true)
		connection.active, connection.since = true, time.Now()
		connection.header.end(connection.Conn)
	case http.StateIdle:
		connection.active, connection.since = false, time.Now()
		connection.header.wait()
	default:
	}
}

// add returns nil if there is no room for a connection.
func (l *Limiter) add(accepted net.Conn, header *headerTimer) *connection {
	added := &connection{Conn: accepted, owner: l, address: host(accepted.RemoteAddr()), since: time.Now(), header: header}
	added.handshake.Store(maxHandshake)
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
	own := l.addresses[address]
	switch {
	case len(own) >= l.ofAddress:
		closed = oldest(own, false)
	case l.count >= l.total:
		closed = l.expendable(address)
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

// expendable returns the connection to close for a new one of an address, of the same
// address or of one that has more. Of those, the address with the most connections that
// wait loses the one that has waited longest. If none waits, the address with the most
// connections, also after that, loses the one that has been active longest.
func (l *Limiter) expendable(address string) *connection {
	own, waiting := len(l.addresses[address]), 0
	var most, mostWaiting map[*connection]struct{}
	for other, connections := range l.addresses {
		if other != address && len(connections) <= own {
			continue
		}
		if n := countWaiting(connections); n > waiting {
			mostWaiting, waiting = connections, n
		}
		if len(connections) > max(len(most), own+1) {
			most = connections
		}
	}
	if waiting > 0 {
		return oldest(mostWaiting, false)
	}
	return oldest(most, true)
}

func countWaiting(connections map[*connection]struct{}) (n int) {
	for connection := range connections {
		if !connection.active {
			n++
		}
	}
	return n
}

// oldest returns the connection that has been active, or has waited, for the longest
// time, nil if none is or does.
func oldest(connections map[*connection]struct{}, active bool) (found *connection) {
	for connection := range connections {
		if connection.active == active && (found == nil || connection.since.Before(found.since)) {
			found = connection
		}
	}
	return found
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
