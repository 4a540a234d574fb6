// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"net"
	"sync"
	"time"
)

// A headerTimer bounds the time of a connection's handshake, and that of each header from its
// first byte. net/http has one bound for a header and for the time in which a connection waits
// for its first request (http.Server.ReadHeaderTimeout). So the server's bound is the longer
// one, for connections that wait, and this one moves the deadline to which it leads.
type headerTimer struct {
	timeout time.Duration

	mu       sync.Mutex
	phase    phase
	began    time.Time // the handshake or the header
	deadline time.Time // that the server has set
}

// phase is what a connection does at a time.
type phase int

const (
	handshaking   phase = iota
	waiting             // for a request
	readingHeader       // of a request
	serving             // a request
)

func newHeaderTimer(timeout time.Duration, encrypted bool) *headerTimer {
	if !encrypted {
		return &headerTimer{timeout: timeout, phase: waiting}
	}
	return &headerTimer{timeout: timeout, phase: handshaking, began: time.Now()}
}

// setDeadline sets a deadline of the server. net/http removes the deadline when the handshake
// has ended, and sets others while a header is read.
func (h *headerTimer) setDeadline(connection net.Conn, t time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == handshaking && t.IsZero() {
		h.phase = waiting
	}
	h.deadline = t
	return connection.SetReadDeadline(h.earlier(t))
}

// earlier returns the deadline in force.
func (h *headerTimer) earlier(t time.Time) time.Time {
	if h.phase != handshaking && h.phase != readingHeader {
		return t
	}
	if own := h.began.Add(h.timeout); t.IsZero() || own.Before(t) {
		return own
	}
	return t
}

// begin notes that bytes have come.
func (h *headerTimer) begin(connection net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != waiting {
		return
	}
	h.phase, h.began = readingHeader, time.Now()
	_ = connection.SetReadDeadline(h.earlier(h.deadline)) // the connection may be closed
}

// end notes that a header was read: what comes next is the handler's.
func (h *headerTimer) end(connection net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase = serving
	_ = connection.SetReadDeadline(h.deadline)
}

// wait notes that the connection waits for its next request.
func (h *headerTimer) wait() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase = waiting
}
