// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"encoding/binary"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// An Incarnation is this life of a container, as others see it.
type Incarnation struct {
	dir   string
	beats bool // and has no lock
	write func(fd int, data []byte) (int, error)

	lock    int // the descriptor of its lock, -1 while there is none
	spare   int // a file with room for the next state, -1 if there is none
	state   state
	told    bool      // that is what others can read
	next    time.Time // when there is something to do
	lastErr error
}

const (
	// beatEvery is the time between two heartbeats.
	beatEvery = 5 * time.Second
	// retryEvery is the time after which what couldn't be written is written again.
	retryEvery = time.Second
)

// NewIncarnation returns one that others see once it says something in dir. It writes
// by write, which is write(2). With beats, it says again and again that it lives, and
// holds no lock.
func NewIncarnation(dir string, beats bool, write func(fd int, data []byte) (int, error)) *Incarnation {
	return &Incarnation{dir: dir, beats: beats, write: write, lock: -1, spare: -1, state: state{incarnation: newName()}}
}

// newName returns the name of an incarnation, which no other has had.
func newName() string {
	var bits [8]byte
	if n, err := unix.Getrandom(bits[:], unix.GRND_NONBLOCK); n < len(bits) || err != nil {
		binary.NativeEndian.PutUint64(bits[:], uint64(time.Now().UnixNano())^uint64(os.Getpid())<<40) //nolint:gosec // G115: any bits will do
	}
	const digits = "0123456789abcdef"
	var name [incarnationDigits]byte
	for i, b := range bits {
		name[2*i], name[2*i+1] = digits[b>>4], digits[b&15]
	}
	return string(name[:])
}

// Tell has others see how far the container has come; the exit code is its own once it
// has ended. What couldn't be written, Act writes later.
func (i *Incarnation) Tell(phase Phase, exitCode int) {
	i.state.phase, i.state.exitCode, i.told = phase, exitCode, false
	i.next = time.Time{}
	i.Act()
}

// Phase is the one that was told last, "" if none was.
func (i *Incarnation) Phase() Phase { return i.state.phase }

// Act does what is due, and returns when there is something to do again, and whether
// there will be.
func (i *Incarnation) Act() (next time.Time, will bool) {
	now := time.Now()
	beats := i.beats && i.state.phase != Ended
	if i.state.phase == "" || i.told && !beats {
		return time.Time{}, false
	}
	if now.Before(i.next) {
		return i.next, true
	}
	if i.told {
		i.state.beat++
	}
	if i.lastErr = i.publish(); i.lastErr != nil {
		i.next = now.Add(retryEvery)
		return i.next, true
	}
	i.told = true
	i.next = now.Add(beatEvery)
	return i.next, beats
}

// Err is why others can't see what was told last, nil if they can.
func (i *Incarnation) Err() error { return i.lastErr }

// publish makes the lock, the first time, and writes the state.
func (i *Incarnation) publish() error {
	if i.lock < 0 {
		if err := i.take(); err != nil {
			return err
		}
	}
	if i.spare < 0 {
		if err := i.reserve(); err != nil {
			return err
		}
	}
	text := i.state.text()
	_, err := unix.Seek(i.spare, 0, unix.SEEK_SET)
	if err == nil {
		err = i.writeAll(i.spare, text)
	}
	if err == nil {
		err = unix.Ftruncate(i.spare, int64(len(text)))
	}
	if err == nil {
		err = unix.Rename(i.dir+newState, i.dir+stateName)
	}
	_ = unix.Close(i.spare)
	i.spare = -1
	if err == nil && i.state.phase != Ended {
		_ = i.reserve() // or the next state is written without
	}
	return err
}

// take makes the lock of this incarnation. No other user can open it before it is held.
func (i *Incarnation) take() error {
	fd, err := create(i.dir+newLock, 0o600)
	if err != nil {
		return err
	}
	err = i.writeAll(fd, []byte(i.state.incarnation))
	if err == nil && !i.beats {
		err = hold(fd)
	}
	if err == nil {
		err = unix.Fchmod(fd, forAll)
	}
	if err == nil {
		err = unix.Rename(i.dir+newLock, i.dir+lockName)
	}
	if err != nil {
		_ = unix.Close(fd)
		_ = unix.Unlink(i.dir + newLock)
		return err
	}
	i.lock = fd
	return nil
}

// reserved is more than a state takes, in bytes.
const reserved = 256

// reserve makes a file for the next state, so that there is room for it also if
// the volume is full by then.
func (i *Incarnation) reserve() error {
	fd, err := create(i.dir+newState, forAll)
	if err != nil {
		return err
	}
	if err := i.writeAll(fd, make([]byte, reserved)); err != nil {
		_ = unix.Close(fd)
		return err
	}
	i.spare = fd
	return nil
}

func (i *Incarnation) writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := i.write(fd, data)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		default:
			data = data[n:]
		}
	}
	return nil
}

// aside is the lowest descriptor for a lock that the command inherits: shells use
// those up to 9 by name, and take those from 10 on for themselves.
const aside = 100

// Bequeath has the lock outlive execve(2): the command that this process becomes holds
// it from then on.
func (i *Incarnation) Bequeath() error {
	if i.lock < 0 {
		return i.lastErr
	}
	if _, err := unix.FcntlInt(uintptr(i.lock), unix.F_DUPFD, aside); err == nil {
		return nil
	}
	// There are limits below that.
	_, err := unix.FcntlInt(uintptr(i.lock), unix.F_DUPFD, 3)
	return err
}

// String names the directory.
func (i *Incarnation) String() string { return strconv.Quote(i.dir) }
