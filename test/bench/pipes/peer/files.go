// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// watched waits for what inotify(7) tells of a path.
type watched struct{ fd int }

func watch(path string, events uint32) (watched, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return watched{}, fmt.Errorf("asking for inotify: %w", err)
	}
	if _, err := unix.InotifyAddWatch(fd, path, events); err != nil {
		return watched{}, errors.Join(fmt.Errorf("watching %q: %w", path, err), unix.Close(fd))
	}
	return watched{fd}, nil
}

// wait returns when something has happened since the last wait.
func (w watched) wait() error {
	var events [4096]byte
	for {
		if _, err := unix.Read(w.fd, events[:]); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// A growing link is two files that are appended to.
type growing struct {
	stream
	news watched
}

func openFiles(in, out string) func(string) (link, error) {
	return func(dir string) (link, error) {
		var g growing
		var err error
		if g.news, err = watch(filepath.Join(dir, in), unix.IN_MODIFY); err != nil {
			return nil, err
		}
		if g.in, err = unix.Open(filepath.Join(dir, in), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return nil, err
		}
		g.out, err = unix.Open(filepath.Join(dir, out), unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC, 0)
		return &g, err
	}
}

func (g *growing) receive(message []byte) error {
	for len(message) > 0 {
		n, err := unix.Read(g.in, message)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("reading: %w", err)
		case n == 0:
			if err := g.news.wait(); err != nil {
				return err
			}
		default:
			message = message[n:]
		}
	}
	return nil
}

func (g *growing) close() error { return errors.Join(g.stream.close(), unix.Close(g.news.fd)) }

// boxes are two directories, to which each message is a file that is renamed when it
// is whole, and that who reads it removes.
type boxes struct {
	in, out        string
	received, sent int
	news           watched
}

func makeBoxes(dir string) error {
	return both(dir, func(path string) error { return os.Mkdir(path, 0o700) })
}

func openBoxes(in, out string) func(string) (link, error) {
	return func(dir string) (link, error) {
		b := &boxes{in: filepath.Join(dir, in), out: filepath.Join(dir, out)}
		var err error
		b.news, err = watch(b.in, unix.IN_MOVED_TO)
		return b, err
	}
}

func (b *boxes) send(message []byte) error {
	b.sent++
	partial := filepath.Join(b.out, "partial")
	fd, err := unix.Open(partial, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("creating %q: %w", partial, err)
	}
	return errors.Join(writeAll(fd, message), unix.Close(fd), unix.Rename(partial, filepath.Join(b.out, strconv.Itoa(b.sent))))
}

func (b *boxes) receive(message []byte) error {
	b.received++
	path := filepath.Join(b.in, strconv.Itoa(b.received))
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			return errors.Join(stream{in: fd}.receive(message), unix.Close(fd), unix.Unlink(path))
		}
		if !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("opening %q: %w", path, err)
		}
		if err := b.news.wait(); err != nil {
			return err
		}
	}
}

func (b *boxes) close() error { return unix.Close(b.news.fd) }
