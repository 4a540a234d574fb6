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

// A Snapshot is what a process leaves to the one that replaces it: some bytes, all of
// which are there or none, wherever the process is killed.
//
// It is a file in memory, sealed as the ring is. It is mapped nowhere, and takes no page
// until something is kept. There are two places, one of which counts: the other is
// written, and then a word of the header says that this one counts now.
type Snapshot struct{ fd int }

const (
	// MaxSnapshot is how long a snapshot is at most, in bytes.
	MaxSnapshot = 5 << 18
	// snapshotSize is that of the header and of two places.
	snapshotSize = headerSize + 2*MaxSnapshot
)

// A snapshotWord says where a snapshot is, how long it is, and what its checksum is. Of
// the zero value, there is none.
type snapshotWord uint64

func wordOf(place int, data []byte) snapshotWord {
	return snapshotWord(crc32.ChecksumIEEE(data))<<32 | snapshotWord(len(data))<<1 | snapshotWord(place) //nolint:gosec // neither is negative
}

func (w snapshotWord) place() int { return int(w & 1) }

func (w snapshotWord) length() int64 { return int64(w & (1<<32 - 1) >> 1) }

func placeAt(place int) int64 { return headerSize + int64(place)*MaxSnapshot }

// CreateSnapshot makes the memory, and returns its descriptor.
func CreateSnapshot() (fd int, err error) { return sealed("entrypointer-logs-former", snapshotSize) }

// OpenSnapshot opens what CreateSnapshot has made, in another process.
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

// Load returns what was kept last, nil if there is nothing, or nothing whole: whoever
// has our rights may write there, too.
func (s *Snapshot) Load() []byte {
	w := s.word()
	if w.length() == 0 || w.length() > MaxSnapshot {
		return nil
	}
	data := make([]byte, w.length())
	if n, err := unix.Pread(s.fd, data, placeAt(w.place())); err != nil || n < len(data) || wordOf(w.place(), data) != w {
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

// Keep puts data in the place of what was kept before. If it fails, that is still there.
func (s *Snapshot) Keep(data []byte) error {
	if len(data) > MaxSnapshot {
		return errors.New("keeping a snapshot: it has " + strconv.Itoa(len(data)) + " bytes, more than " + strconv.Itoa(MaxSnapshot))
	}
	was := s.word().place()
	next := 1 - was
	if err := s.write(data, placeAt(next)); err != nil {
		s.free(next)
		return errors.New("keeping a snapshot: " + err.Error())
	}
	var word [8]byte
	binary.NativeEndian.PutUint64(word[:], uint64(wordOf(next, data)))
	if err := s.write(word[:], 0); err != nil {
		return errors.New("keeping a snapshot: " + err.Error())
	}
	s.free(was)
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

// free gives the memory of a place back.
func (s *Snapshot) free(place int) {
	_ = unix.Fallocate(s.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, placeAt(place), MaxSnapshot)
}
