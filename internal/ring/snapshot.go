// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ring

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strconv"

	"golang.org/x/sys/unix"
)

// A Snapshot keeps some bytes that one process saves, and others load. Saving is atomic,
// wherever the process is killed.
//
// It is a sealed file in memory, like the ring, but isn't mapped, and takes no page
// before the first Save. It has two slots: Save writes the unused one, and then a word in
// the header that makes it the valid one.
type Snapshot struct{ fd int }

const (
	// MaxSnapshot bounds the length of a snapshot, in bytes.
	MaxSnapshot = 5 << 18
	// snapshotSize is the size of the header and two slots.
	snapshotSize = headerSize + 2*MaxSnapshot
)

// A snapshotWord has the slot, the length and the checksum of the valid snapshot. The
// zero value says that there is none.
type snapshotWord uint64

func newSnapshotWord(slot int, data []byte) snapshotWord {
	return snapshotWord(crc32.ChecksumIEEE(data))<<32 | snapshotWord(len(data))<<1 | snapshotWord(slot) //nolint:gosec // neither is negative
}

func (w snapshotWord) slot() int { return int(w & 1) }

func (w snapshotWord) length() int64 { return int64(w & (1<<32 - 1) >> 1) }

func slotOffset(slot int) int64 { return headerSize + int64(slot)*MaxSnapshot }

// CreateSnapshot creates an empty snapshot, and returns its file descriptor.
func CreateSnapshot() (fd int, err error) {
	return createSealed("entrypointer-logs-former", snapshotSize)
}

// OpenSnapshot opens, in another process, a snapshot of CreateSnapshot.
func OpenSnapshot(fd int) (*Snapshot, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.New("opening a snapshot: descriptor " + strconv.Itoa(fd) + ": " + err.Error())
	}
	if st.Size != snapshotSize {
		return nil, errors.New("opening a snapshot: descriptor " + strconv.Itoa(fd) + " has " + strconv.FormatInt(st.Size, 10) + " bytes, not " + strconv.Itoa(snapshotSize))
	}
	return &Snapshot{fd}, nil
}

// Load returns the bytes that were saved last, nil if there are none. A failed checksum
// counts as none: the command has the same rights as the supervisor, and can write into
// the file.
func (s *Snapshot) Load() []byte {
	for {
		version := s.Version()
		data := s.load(snapshotWord(version))
		// Another process may have saved meanwhile, and freed the slot.
		if data != nil || s.Version() == version {
			return data
		}
	}
}

// Version returns a number that changes when other bytes are saved, 0 if there are none.
func (s *Snapshot) Version() uint64 { return uint64(s.word()) }

func (s *Snapshot) load(w snapshotWord) []byte {
	if w.length() == 0 || w.length() > MaxSnapshot {
		return nil
	}
	data := make([]byte, w.length())
	if n, err := unix.Pread(s.fd, data, slotOffset(w.slot())); err != nil || n < len(data) || newSnapshotWord(w.slot(), data) != w {
		return nil
	}
	return data
}

func (s *Snapshot) word() snapshotWord {
	var word [8]byte
	if n, err := unix.Pread(s.fd, word[:], 0); err != nil || n < len(word) {
		return 0
	}
	return snapshotWord(binary.NativeEndian.Uint64(word[:]))
}

// Save replaces the saved bytes. After an error, the former ones remain.
func (s *Snapshot) Save(data []byte) error {
	if len(data) > MaxSnapshot {
		return errors.New("saving a snapshot: it has " + strconv.Itoa(len(data)) + " bytes, more than " + strconv.Itoa(MaxSnapshot))
	}
	was := s.word().slot()
	next := 1 - was
	if err := s.write(data, slotOffset(next)); err != nil {
		s.freeSlot(next)
		return errors.New("saving a snapshot: " + err.Error())
	}
	var word [8]byte
	binary.NativeEndian.PutUint64(word[:], uint64(newSnapshotWord(next, data)))
	if err := s.write(word[:], 0); err != nil {
		return errors.New("saving a snapshot: " + err.Error())
	}
	s.freeSlot(was)
	return nil
}

func (s *Snapshot) write(data []byte, at int64) error {
	for len(data) > 0 {
		n, err := unix.Pwrite(s.fd, data, at)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		data, at = data[max(n, 0):], at+int64(max(n, 0))
	}
	return nil
}

// freeSlot returns the memory of a slot to the kernel.
func (s *Snapshot) freeSlot(slot int) {
	_ = unix.Fallocate(s.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, slotOffset(slot), MaxSnapshot)
}
