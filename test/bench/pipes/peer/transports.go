// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A link sends and receives whole messages. All of them wait in system calls, not in
// Go's poller, so that the kernel's ways are compared.
type link interface {
	send(message []byte) error
	receive(message []byte) error
	close() error
}

// A transport is a way to make links.
type transport struct {
	name   string
	memory bool // its directory is in memory
	most   int  // bytes to send without an answer, 0 if it holds the sender back
	// make makes what both open, in a directory.
	make func(dir string) error
	// answer calls ready once the other one can open it, and opens it. The directory is
	// renamed by that.
	answer func(dir, renamed string, ready func() error) (link, error)
	ask    func(dir string) (link, error)
}

// most bounds what is in a file at a time.
const most = 128 << 20

var transports = []transport{
	{name: "FIFO", make: makePipes, answer: renamedFirst(openPipes("there", "back")), ask: openPipes("back", "there")},
	{name: "Unix socket", make: nothing, answer: acceptUnix, ask: connectUnix},
	{name: "TCP over loopback", make: nothing, answer: acceptTCP, ask: connectTCP},
	{name: "shared memory", memory: true, make: makeRings, answer: renamedFirst(openRings("there", "back")), ask: openRings("back", "there")},
	{name: "a file that grows, and inotify", most: most, make: makeFiles, answer: renamedFirst(openFiles("there", "back")), ask: openFiles("back", "there")},
	{name: "a file for each message, and inotify", most: most / 64, make: makeBoxes, answer: renamedFirst(openBoxes("there", "back")), ask: openBoxes("back", "there")},
}

func nothing(string) error { return nil }

// renamedFirst opens what is opened by both in the same way.
func renamedFirst(open func(string) (link, error)) func(string, string, func() error) (link, error) {
	return func(_, renamed string, ready func() error) (link, error) {
		if err := ready(); err != nil {
			return nil, err
		}
		return open(renamed)
	}
}

// both makes something for each direction.
func both(dir string, by func(path string) error) error {
	return errors.Join(by(filepath.Join(dir, "there")), by(filepath.Join(dir, "back")))
}

// A stream is a link by descriptors.
type stream struct{ in, out int }

func (s stream) send(message []byte) error { return writeAll(s.out, message) }

func (s stream) receive(message []byte) error {
	for len(message) > 0 {
		n, err := unix.Read(s.in, message)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("reading: %w", err)
		case n == 0:
			return io.ErrUnexpectedEOF
		default:
			message = message[n:]
		}
	}
	return nil
}

func (s stream) close() error {
	if s.in == s.out {
		return unix.Close(s.in)
	}
	return errors.Join(unix.Close(s.in), unix.Close(s.out))
}

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("writing: %w", err)
		}
		data = data[max(n, 0):]
	}
	return nil
}

func makePipes(dir string) error {
	return both(dir, func(path string) error { return unix.Mkfifo(path, 0o600) })
}

// openPipes opens that of messages that come before that of those that go, or the other
// way round: each open(2) waits for the other container's.
func openPipes(in, out string) func(string) (link, error) {
	return func(dir string) (link, error) {
		var s stream
		var err error
		open := func(name string, flags int) int {
			fd, e := unix.Open(filepath.Join(dir, name), flags, 0)
			err = errors.Join(err, e)
			return fd
		}
		if in < out { // "back" is opened first by both
			s.in = open(in, unix.O_RDONLY)
			s.out = open(out, unix.O_WRONLY)
		} else {
			s.out = open(out, unix.O_WRONLY)
			s.in = open(in, unix.O_RDONLY)
		}
		return s, err
	}
}

func acceptUnix(dir, renamed string, ready func() error) (link, error) {
	return accept(unix.AF_UNIX, &unix.SockaddrUnix{Name: filepath.Join(dir, "socket")}, ready)
}

func connectUnix(dir string) (link, error) {
	return connect(unix.AF_UNIX, &unix.SockaddrUnix{Name: filepath.Join(dir, "socket")})
}

// loopback is where the answering one listens.
var loopback = &unix.SockaddrInet4{Port: 7321, Addr: [4]byte{127, 0, 0, 1}}

func acceptTCP(_, _ string, ready func() error) (link, error) {
	return accept(unix.AF_INET, loopback, ready)
}

func connectTCP(string) (link, error) { return connect(unix.AF_INET, loopback) }

func accept(family int, at unix.Sockaddr, ready func() error) (link, error) {
	listener, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(listener) }()
	if family == unix.AF_INET {
		err = unix.SetsockoptInt(listener, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err = errors.Join(err, unix.Bind(listener, at)); err != nil {
		return nil, fmt.Errorf("binding a socket: %w", err)
	}
	if err := errors.Join(unix.Listen(listener, 1), ready()); err != nil {
		return nil, err
	}
	fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return socket(family, fd)
}

func connect(family int, to unix.Sockaddr) (link, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, to); err != nil {
		return nil, errors.Join(fmt.Errorf("connecting: %w", err), unix.Close(fd))
	}
	return socket(family, fd)
}

func socket(family, fd int) (link, error) {
	if family == unix.AF_INET {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			return nil, errors.Join(err, unix.Close(fd))
		}
	}
	return stream{fd, fd}, nil
}

// makeFiles makes empty ones.
func makeFiles(dir string) error {
	return both(dir, func(path string) error { return os.WriteFile(path, nil, 0o600) })
}
