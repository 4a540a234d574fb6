// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// room is what a ring holds, in bytes: what a pipe does.
	room = 64 << 10
	// spins is how often to look before sleeping.
	spins = 2000
)

// A ring is memory in which one process writes and another one reads. The counters are
// of bytes, and wrap. Each has a cache line of its own.
type ring struct {
	written atomic.Uint32
	_       [60]byte
	read    atomic.Uint32
	_       [60]byte
	sleepy  atomic.Uint32 // somebody sleeps until a counter changes
	_       [60]byte
	data    [room]byte
}

// rings are a link by two of them.
type rings struct{ in, out *ring }

func makeRings(dir string) error {
	return both(dir, func(path string) error {
		return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, int64(unsafe.Sizeof(ring{}))))
	})
}

func openRings(in, out string) func(string) (link, error) {
	return func(dir string) (link, error) {
		one, err := openRing(filepath.Join(dir, in))
		if err != nil {
			return nil, err
		}
		other, err := openRing(filepath.Join(dir, out))
		return &rings{one, other}, err
	}
}

func openRing(path string) (*ring, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %q: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	memory, err := unix.Mmap(fd, 0, int(unsafe.Sizeof(ring{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %q: %w", path, err)
	}
	return (*ring)(unsafe.Pointer(&memory[0])), nil
}

func (r *rings) send(message []byte) error {
	o, size := r.out, uint32(len(message)) //nolint:gosec // G115: it is less than the ring's room
	at := o.written.Load()
	if err := o.await(&o.read, func(read uint32) bool { return room-(at-read) >= size }); err != nil {
		return err
	}
	start := at % room
	n := copy(o.data[start:], message)
	copy(o.data[:], message[n:])
	o.written.Store(at + size)
	return o.wake(&o.written)
}

func (r *rings) receive(message []byte) error {
	i, size := r.in, uint32(len(message)) //nolint:gosec // G115: it is less than the ring's room
	at := i.read.Load()
	if err := i.await(&i.written, func(written uint32) bool { return written-at >= size }); err != nil {
		return err
	}
	n := copy(message, i.data[at%room:])
	copy(message[n:], i.data[:])
	i.read.Store(at + size)
	return i.wake(&i.read)
}

// close leaves the memory to the process's end.
func (r *rings) close() error { return nil }

// Of futex(2), across processes.
const (
	futexWait = 0
	futexWake = 1
)

// await returns once a counter is as it has to be: it looks for some microseconds, and
// then sleeps.
func (r *ring) await(counter *atomic.Uint32, enough func(uint32) bool) error {
	for range spins {
		if enough(counter.Load()) {
			return nil
		}
	}
	for {
		r.sleepy.Add(1)
		now := counter.Load()
		if enough(now) {
			r.sleepy.Add(^uint32(0))
			return nil
		}
		_, _, err := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(counter)), futexWait, uintptr(now), 0, 0, 0)
		r.sleepy.Add(^uint32(0))
		if err != 0 && err != unix.EAGAIN && err != unix.EINTR {
			return fmt.Errorf("waiting for a futex: %w", err)
		}
	}
}

// wake wakes whoever sleeps on a counter that has changed.
func (r *ring) wake(counter *atomic.Uint32) error {
	if r.sleepy.Load() == 0 {
		return nil
	}
	if _, _, err := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(counter)), futexWake, 1, 0, 0, 0); err != 0 {
		return fmt.Errorf("waking by a futex: %w", err)
	}
	return nil
}
