// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package connectionstest connects clients to servers by pipes, whose deadlines are in the fake
// time of a test.
package connectionstest

import "net"

// A Listener accepts pipes. Make it as a channel.
type Listener chan net.Conn

// Dial returns the client's end of a connection that the listener accepts.
func (l Listener) Dial() net.Conn {
	ours, theirs := net.Pipe()
	l <- theirs
	return ours
}

// Accept implements net.Listener.
func (l Listener) Accept() (net.Conn, error) {
	accepted, open := <-l
	if !open {
		return nil, net.ErrClosed
	}
	return accepted, nil
}

// Close implements net.Listener.
func (l Listener) Close() error { close(l); return nil }

// Addr implements net.Listener.
func (l Listener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }
