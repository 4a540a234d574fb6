// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/ascii"
)

// A connection is one probe attempt over TCP. It tries the endpoint's addresses in
// turn. If request is set, it also sends an HTTP request and reads the status line of
// the response.
type connection struct {
	addresses []unix.Sockaddr // not tried yet
	request   func(host string) []byte
	method    string

	fd      int // -1 if no socket is open
	step    step
	out, in []byte // the unsent rest of the request; the response so far
	sent    bool   // one address has received the whole request
	err     error  // of an earlier address
}

// A step is the operation that a connection waits for.
type step int16

const (
	connecting step = iota
	sending
	receiving
)

func newConnection(e *Endpoint, request func(host string) []byte) *connection {
	return &connection{addresses: e.addresses(), request: request, method: methodGet, fd: -1, err: unix.EADDRNOTAVAIL}
}

func (c *connection) advance() (over bool, err error) {
	for {
		if c.fd < 0 {
			if len(c.addresses) == 0 {
				return true, c.err
			}
			c.dial()
			continue
		}
		ok, err := c.advanceStep()
		switch {
		case err == unix.EAGAIN:
			return false, nil
		case err != nil:
			c.keepError(err)
			c.close()
		case ok:
			return true, nil
		}
	}
}

// dial starts to connect to the next address.
func (c *connection) dial() {
	address := c.addresses[0]
	c.addresses = c.addresses[1:]
	family := unix.AF_INET
	if _, is := address.(*unix.SockaddrInet6); is {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		c.keepError(err)
		return
	}
	c.fd, c.step, c.in = fd, connecting, nil
	if c.request != nil {
		c.out = c.request(hostHeader(address))
	}
	if err := unix.Connect(fd, address); err != nil && err != unix.EINPROGRESS {
		c.keepError(err)
		c.close()
	}
}

// keepError records why an address failed. An HTTP response is more informative than a
// connection error, so a later error doesn't replace it.
func (c *connection) keepError(err error) {
	if _, answered := c.err.(*badAnswer); !answered { //nolint:errorlint // badAnswer is only created in this file
		c.err = err
	}
}

// advanceStep performs the current step. The error is EAGAIN if the step would block.
func (c *connection) advanceStep() (over bool, err error) {
	switch c.step {
	case connecting:
		if !c.connectEnded() {
			return false, unix.EAGAIN
		}
		if code, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil || code != 0 {
			return false, unix.Errno(max(code, 1))
		}
		if isSelfConnected(c.fd) {
			return false, unix.ECONNREFUSED
		}
		c.step = sending
		return c.request == nil, nil
	case sending:
		if len(c.out) == 0 {
			c.step, c.sent = receiving, true
			return false, nil
		}
		// No SIGPIPE: it would be forwarded to the command.
		n, err := unix.SendmsgN(c.fd, c.out, nil, nil, unix.MSG_NOSIGNAL)
		if err != nil {
			return false, ignoreEINTR(err)
		}
		c.out = c.out[n:]
		return false, nil
	default:
		return c.receive()
	}
}

// receive reads the response up to the end of its status line.
func (c *connection) receive() (over bool, err error) {
	var buf [512]byte
	n, err := unix.Read(c.fd, buf[:])
	if err != nil {
		return false, ignoreEINTR(err)
	}
	c.in = append(c.in, buf[:n]...)
	line, _, whole := strings.Cut(string(c.in), "\n")
	switch {
	case whole:
		if code := parseStatus(line); !isSuccess(c.method, code) {
			const quoted = 64 // bytes of what anybody may have sent
			return false, &badAnswer{code, "the answer was " + strconv.Quote(line[:min(len(line), quoted)])}
		}
		return true, nil
	case n == 0 && len(c.in) == 0:
		return false, &badAnswer{text: "the connection was closed without an answer"}
	case n == 0, len(c.in) > maxFileSize:
		return false, &badAnswer{text: "the answer is not HTTP"}
	}
	return false, nil
}

// ignoreEINTR returns nil instead of EINTR, so that the caller repeats the system call.
func ignoreEINTR(err error) error {
	if err == unix.EINTR {
		return nil
	}
	return err
}

// isSuccess follows the kubelet for probes: a redirection is a success. A redirected
// POST has had no effect, so it isn't one.
func isSuccess(method string, code int) bool {
	return code >= 200 && (code < 300 || method == methodGet && code < 400)
}

// parseStatus returns the code of a status line (RFC 9112, section 4), or 0 if the line
// isn't one.
func parseStatus(line string) int {
	version, rest, _ := strings.Cut(line, " ")
	code, err := strconv.Atoi(rest[:min(len(rest), 3)])
	if !strings.HasPrefix(version, "HTTP/1.") || err != nil {
		return 0
	}
	return code
}

// A badAnswer is a response that isn't a success.
type badAnswer struct {
	code int // 0 if the response isn't HTTP
	text string
}

func (a *badAnswer) Error() string { return a.text }

// connectEnded reports whether the attempt to connect has succeeded or failed.
func (c *connection) connectEnded() bool {
	fds := c.poll(nil)
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

func (c *connection) poll(fds []unix.PollFd) []unix.PollFd {
	events := int16(unix.POLLOUT)
	if c.step == receiving {
		events = unix.POLLIN
	}
	return append(fds, unix.PollFd{Fd: int32(c.fd), Events: events}) //nolint:gosec // descriptors are ints of C
}

func (c *connection) close() {
	if c.fd >= 0 {
		_ = unix.Close(c.fd)
		c.fd = -1
	}
}

// The HTTP methods in use.
const (
	methodGet  = "GET"
	methodPost = "POST"
)

// formatRequest returns an HTTP request without a body. Its headers are those of the
// kubelet's probes, except where headers has another value.
func formatRequest(method, host, path string, headers []string) []byte {
	var b strings.Builder
	b.WriteString(method + " " + path + " HTTP/1.1\r\n")
	ours := []string{"Host: " + host, "User-Agent: entrypointer", "Accept: */*", "Connection: close"}
	if method == methodPost {
		ours = append(ours, "Content-Length: 0")
	}
	for _, header := range ours {
		if name, _, _ := strings.Cut(header, ":"); !hasHeader(headers, name) {
			b.WriteString(header + "\r\n")
		}
	}
	for _, header := range headers {
		b.WriteString(header + "\r\n")
	}
	b.WriteString("\r\n")
	return []byte(b.String())
}

func hasHeader(headers []string, name string) bool {
	for _, header := range headers {
		if other, _, _ := strings.Cut(header, ":"); ascii.EqualFold(other, name) {
			return true
		}
	}
	return false
}

// hostHeader returns an address in the format of the Host header.
func hostHeader(address unix.Sockaddr) string {
	switch a := address.(type) {
	case *unix.SockaddrInet4:
		parts := make([]string, len(a.Addr))
		for i, b := range a.Addr {
			parts[i] = strconv.Itoa(int(b))
		}
		return strings.Join(parts, ".") + ":" + strconv.Itoa(a.Port)
	case *unix.SockaddrInet6:
		parts := make([]string, len(a.Addr)/2)
		for i := range parts {
			parts[i] = strconv.FormatUint(uint64(a.Addr[2*i])<<8|uint64(a.Addr[2*i+1]), 16)
		}
		host := strings.Join(parts, ":")
		if host == "0:0:0:0:0:0:0:1" {
			host = "::1"
		}
		return "[" + host + "]:" + strconv.Itoa(a.Port)
	}
	return ""
}

// isSelfConnected reports whether a socket is connected to itself. The kernel may
// choose the destination port as the source port, and then the connection succeeds
// although no process listens.
func isSelfConnected(fd int) bool {
	here, err := unix.Getsockname(fd)
	if err != nil {
		return false
	}
	there, err := unix.Getpeername(fd)
	if err != nil {
		return false
	}
	switch here := here.(type) {
	case *unix.SockaddrInet4:
		there, same := there.(*unix.SockaddrInet4)
		return same && here.Port == there.Port && here.Addr == there.Addr
	case *unix.SockaddrInet6:
		there, same := there.(*unix.SockaddrInet6)
		return same && here.Port == there.Port && here.Addr == there.Addr
	}
	return false
}
