// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package ring is memory that two processes share: the supervisor writes into it
// what a container prints, and the shipper reads it from there. The writer waits
// for nobody: where the reader is slow, the oldest bytes go, and the reader finds
// a gap.
//
// It is a file in memory whose size can't be changed (memfd_create(2) with seals),
// so that no process which opens it by /proc can have another one killed by SIGBUS.
// What the reader has done is in it as well: one that dies is replaced by another,
// which goes on where it stopped.
//
// Only one process writes, and only one reads. Neither believes what the other
// writes more than costs it nothing: the command has the rights of both.
package ring

import (
	"errors"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Stream is one of those that a container has.
type Stream int

// The streams: what the command prints, as in its descriptors, and what happens to it.
const (
	Stdout Stream = iota
	Stderr
	Events
)

// Streams are all of them, and Printed those of the command.
var (
	Streams = [...]Stream{Stdout, Stderr, Events}
	Printed = [...]Stream{Stdout, Stderr}
)

// Name is what the log service knows a stream by.
func (s Stream) Name() string { return [...]string{"stdout", "stderr", "events"}[s] }

// capacity is how much of a stream is kept, in bytes.
func (s Stream) capacity() int64 {
	if s == Events {
		return eventsCapacity
	}
	return Capacity
}

const (
	// Capacity is how much is kept of what the command prints, in bytes of each stream.
	Capacity = 1 << 20
	// eventsCapacity is how much is kept of the events: some four hundred.
	eventsCapacity = 64 << 10
	// headerSize is a page, so that the streams begin at one.
	headerSize = 4096
	// Behind the header are the bytes of each stream, and then its marks.
	size = headerSize + len(Printed)*Capacity + eventsCapacity + len(Streams)*marksSize
	// version changes with the layout. Writer and reader are the same program.
	version = 0x656e747279703032
)

// header begins the memory.
type header struct {
	version  uint64
	sleeping atomic.Uint32 // the reader waits to be woken
	_        uint32
	length   atomic.Uint32 // of failure, in bytes
	failure  [maxFailure]byte
	streams  [len(Streams)]streamHeader
}

// maxFailure is the length of the longest explanation, in bytes.
const maxFailure = 1020

// streamHeader has what is known of a stream. Offsets count from its first byte.
type streamHeader struct {
	written atomic.Int64 // of the writer: the offset of the next byte
	floor   atomic.Int64 // of the writer: the offset of the first byte that is still there
	ended   atomic.Uint32
	closed  atomic.Uint32 // of the reader: the service knows the end
	wakeAt  atomic.Int64  // of the reader: how much is to be written until it is woken
	which   atomic.Uint32 // of the reader: the progress that counts
	_       uint32
	done    [2]Progress  // of the reader
	marked  atomic.Int64 // of the writer: how many marks there were
	reserve [64]byte     // so that the streams don't share a cache line
}

// Progress is how far the reader has come.
type Progress struct {
	// At, MaskedUntil and AfterGap are a mask.State: what comes before At is stored or
	// marked as dropped.
	At, MaskedUntil int64
	AfterGap        int64 // 1 if it is so
	Dropped         int64 // how many of the bytes before At were dropped
}

// A Ring is the memory as one of the processes sees it.
type Ring struct {
	memory []byte
	*header
}

// Create makes the memory, and returns the descriptor by which another process opens it.
func Create() (*Ring, int, error) {
	fd, err := sealed("entrypointer-logs", size)
	if err != nil {
		return nil, -1, err
	}
	r, err := mapped(fd)
	if err != nil {
		_ = unix.Close(fd)
		return nil, -1, errors.New("sharing memory: " + err.Error())
	}
	r.version = version
	return r, fd, nil
}

// sealed makes a file in memory, whose size nobody can change.
func sealed(name string, size int) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, errors.New("memfd_create: " + err.Error())
	}
	if err = unix.Ftruncate(fd, int64(size)); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, errors.New("sharing memory: " + err.Error())
	}
	return fd, nil
}

// Open opens the memory that another process has created.
func Open(fd int) (*Ring, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.New("opening the ring: descriptor " + strconv.Itoa(fd) + ": " + err.Error())
	}
	if st.Size != int64(size) {
		return nil, errors.New("opening the ring: descriptor " + strconv.Itoa(fd) + " has " + strconv.FormatInt(st.Size, 10) + " bytes, not " + strconv.Itoa(size))
	}
	r, err := mapped(fd)
	if err != nil {
		return nil, errors.New("opening the ring: " + err.Error())
	}
	if r.version != version {
		return nil, errors.New("opening the ring: descriptor " + strconv.Itoa(fd) + " is none")
	}
	return r, nil
}

func mapped(fd int) (*Ring, error) {
	memory, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.New("mmap: " + err.Error())
	}
	return &Ring{memory: memory, header: (*header)(unsafe.Pointer(&memory[0]))}, nil
}

// slots are where the bytes of a stream from an offset on are, up to the end of the memory.
func (r *Ring) slots(s Stream, from int64) []byte {
	begin, capacity := headerSize+int64(s)*Capacity, s.capacity()
	return r.memory[begin+from%capacity : begin+capacity]
}

// Failure is what the reader has said last of what it can't do, "" if it can.
func (r *Ring) Failure() string {
	length := min(r.length.Load(), maxFailure)
	return string(r.failure[:length])
}

// barrier has what comes before it in the program come before in memory as well:
// of atomic loads and stores alone, a plain access can get to the other side.
func barrier() { fence.Add(1) }

var fence atomic.Uint32
