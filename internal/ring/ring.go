// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package ring is the memory that supervisor and shipper share: the supervisor writes the
// output of a container into it, and the shipper reads it. The writer never waits. If the
// reader is slow, the writer overwrites the oldest bytes, and the reader finds a gap. A
// writer that has time can ask for the room that is left.
//
// A ring is a file in memory (memfd_create(2)). Seals fix its size, so that no process
// which opens it by /proc can truncate it and so kill another process by SIGBUS. The ring
// also has the progress of the reader: a new shipper continues where a killed one
// stopped.
//
// One process writes, and one reads. Each checks what the other has written, because the
// command has the rights of both and may write into the ring too.
package ring

import (
	"errors"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Stream is one of the streams of a container.
type Stream int

// The output of the command, and the events of the container.
const (
	Stdout Stream = iota
	Stderr
	Events
)

// Streams are all streams, Printed those with output of the command.
var (
	Streams = [...]Stream{Stdout, Stderr, Events}
	Printed = [...]Stream{Stdout, Stderr}
)

// Name returns the name of a stream at the log service.
func (s Stream) Name() string { return [...]string{"stdout", "stderr", "events"}[s] }

const (
	// DefaultCapacity is the size of the memory of stdout, and of stderr, in bytes, unless
	// another one is asked for.
	DefaultCapacity = 1 << 20
	// MinCapacity is the least that can be asked for.
	MinCapacity = 256 << 10
	// MaxCapacity is the most that can be asked for.
	MaxCapacity = 64 << 20
	// eventsCapacity is the size of the memory of events, in bytes: some four hundred
	// events.
	eventsCapacity = 64 << 10
	// headerSize is a page, so that the streams are aligned.
	headerSize = 4096
	// fixedSize is the size of everything but the memory of stdout and stderr. The header
	// comes first, then the bytes of all streams, then the marks of all streams.
	fixedSize = headerSize + eventsCapacity + len(Streams)*marksSize
	// version identifies the layout. It may change freely, because writer and reader are the
	// same binary.
	version = 0x656e747279703034
)

// header is the beginning of the memory.
type header struct {
	version       uint64
	sleeping      atomic.Uint32 // 1 while the reader waits for Wake
	awaiting      atomic.Uint32 // 1 while the writer waits for progress of the reader
	failureLength atomic.Uint32 // of failure, in bytes
	failure       [maxFailure]byte
	failed        atomic.Uint32 // by the writer: 1 if the container fails
	explained     atomic.Uint32 // by the reader: 1 if the termination message is written
	hasPrinted    atomic.Uint32 // by the writer: 1 if the command has printed something, released or not
	streams       [len(Streams)]streamHeader
}

// maxFailure bounds the failure in the header, in bytes.
const maxFailure = 1020

// streamHeader has the state of a stream. Offsets count from the first byte of the
// stream.
type streamHeader struct {
	written       atomic.Int64 // by the writer: the offset of the next byte
	floor         atomic.Int64 // by the writer: the offset of the oldest byte in the ring
	readAt        atomic.Int64 // by the reader: the offset of the next byte to read
	ended         atomic.Uint32
	complete      atomic.Uint32 // by the reader: the log service has the end
	wakeAt        atomic.Int64  // by the reader: the number of written bytes at which to wake it
	progressSlot  atomic.Uint32 // by the reader: the index of the valid progressSlot
	wantsMore     atomic.Uint32 // by the reader: see WantMore
	progressSlots [2]Progress   // by the reader
	markCount     atomic.Int64  // by the writer: the number of marks so far
	padding       [64]byte      // keeps streams off each other's cache lines
}

// Progress is how far the reader has come in a stream.
type Progress struct {
	// At, MaskedUntil and AfterGap are a mask.State. All bytes before At are stored, or
	// marked as dropped.
	At, MaskedUntil int64
	AfterGap        int64 // 1 for true
	Dropped         int64 // how many of the bytes before At were dropped
}

// A Ring is the shared memory, mapped by one process.
type Ring struct {
	memory  []byte
	printed int64 // the capacity of stdout, and of stderr
	*header
}

// Capacity returns the size of a stream's memory, in bytes.
func (r *Ring) Capacity(s Stream) int64 {
	if s == Events {
		return eventsCapacity
	}
	return r.printed
}

// Create creates a ring with a capacity for each of stdout and stderr, rounded up to
// pages. It returns the file descriptor to open the ring in another process.
func Create(capacity int64) (*Ring, int, error) {
	capacity = (capacity + headerSize - 1) / headerSize * headerSize
	fd, err := createSealed("entrypointer-logs", fixedSize+len(Printed)*int(capacity))
	if err != nil {
		return nil, -1, err
	}
	r, err := mapRing(fd, capacity)
	if err != nil {
		_ = unix.Close(fd)
		return nil, -1, errors.New("sharing memory: " + err.Error())
	}
	r.version = version
	return r, fd, nil
}

// createSealed creates a file in memory with a fixed size.
func createSealed(name string, size int) (int, error) {
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

// Open opens a ring that another process has created.
func Open(fd int) (*Ring, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.New("opening the ring: descriptor " + strconv.Itoa(fd) + ": " + err.Error())
	}
	capacity := (st.Size - int64(fixedSize)) / int64(len(Printed))
	if capacity < MinCapacity || capacity > MaxCapacity || capacity%headerSize != 0 {
		return nil, errors.New("opening the ring: descriptor " + strconv.Itoa(fd) + " has " + strconv.FormatInt(st.Size, 10) + " bytes, which no ring has")
	}
	r, err := mapRing(fd, capacity)
	if err != nil {
		return nil, errors.New("opening the ring: " + err.Error())
	}
	if r.version != version {
		return nil, errors.New("opening the ring: descriptor " + strconv.Itoa(fd) + " isn't a ring of this version")
	}
	return r, nil
}

func mapRing(fd int, capacity int64) (*Ring, error) {
	memory, err := unix.Mmap(fd, 0, fixedSize+len(Printed)*int(capacity), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.New("mmap: " + err.Error())
	}
	return &Ring{memory: memory, printed: capacity, header: (*header)(unsafe.Pointer(&memory[0]))}, nil
}

// bytesFrom returns the memory of a stream from an offset on, up to the end of the
// stream's memory.
func (r *Ring) bytesFrom(s Stream, from int64) []byte {
	begin, capacity := headerSize+int64(s)*r.printed, r.Capacity(s)
	return r.memory[begin+from%capacity : begin+capacity]
}

// Explained reports whether a reader has called Explain.
func (r *Ring) Explained() bool { return r.explained.Load() != 0 }

// Failure returns the text of the reader's last SetFailure.
func (r *Ring) Failure() string {
	length := min(r.failureLength.Load(), maxFailure)
	return string(r.failure[:length])
}

// barrier orders the memory accesses before it before those after it. Atomic loads and
// stores alone don't keep plain accesses from being reordered.
func barrier() { fence.Add(1) }

var fence atomic.Uint32
