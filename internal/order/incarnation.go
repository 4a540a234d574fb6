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
	dir        string
	heartbeats bool // and has no lock
	write      func(fd int, data []byte) (int, error)

	lock      int // the descriptor of its lock, -1 while there is none
	reserved  int // a file with room for the next state, -1 if there is none
	state     state
	published bool      // that is what others can read
	next      time.Time // when there is something to do
	err       error
}

const (
	// beatEvery is the time between two heartbeats.
	heartbeatInterval = 5 * time.Second
	// retryEvery is the time after which what couldn't be written is written again.
	retryInterval = time.Second
)

// NewIncarnation returns one that others see once it says something in dir. It writes
// by write, which is write(2). With beats, it says again and again that it lives, and
// holds no lock.
func NewIncarnation(dir string, heartbeats bool, write func(fd int, data []byte) (int, error)) *Incarnation {
	return &Incarnation{dir: dir, heartbeats: heartbeats, write: write, lock: -1, reserved: -1, state: state{incarnation: newIncarnationName()}}
}

// newName returns the name of an incarnation, which no other has had.
func newIncarnationName() string {
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
func (i *Incarnation) Publish(phase Phase, exitCode int) {
	i.state.phase, i.state.exitCode, i.published = phase, exitCode, false
	i.next = time.Time{}
	i.Act()
}

// Phase is the one that was told last, "" if none was.
func (i *Incarnation) Phase() Phase { return i.state.phase }

// Act does what is due, and returns when there is something to do again, and whether
// there will be.
func (i *Incarnation) Act() (next time.Time, will bool) {
	now := time.Now()
	heartbeats := i.heartbeats && i.state.phase != Ended
	if i.state.phase == "" || i.published && !heartbeats {
		return time.Time{}, false
	}
	if now.Before(i.next) {
		return i.next, true
	}
	if i.published {
		i.state.beat++
	}
	if i.err = i.publish(); i.err != nil {
		i.next = now.Add(retryInterval)
		return i.next, true
	}
	i.published = true
	i.next = now.Add(heartbeatInterval)
	return i.next, heartbeats
}

// Err is why others can't see what was told last, nil if they can.
func (i *Incarnation) Err() error { return i.err }

// publish makes the lock, the first time, and writes the state.
func (i *Incarnation) publish() error {
	if i.lock < 0 {
		if err := i.createLock(); err != nil {
			return err
		}
	}
	if i.reserved < 0 {
		if err := i.reserveState(); err != nil {
			return err
		}
	}
	text := i.state.text()
	_, err := unix.Seek(i.reserved, 0, unix.SEEK_SET)
	if err == nil {
		err = i.writeAll(i.reserved, text)
	}
	if err == nil {
		err = unix.Ftruncate(i.reserved, int64(len(text)))
	}
	if err == nil {
		err = unix.Rename(i.dir+newStateName, i.dir+stateName)
	}
	_ = unix.Close(i.reserved)
	i.reserved = -1
	if err == nil && i.state.phase != Ended {
		_ = i.reserveState() // or the next state is written without
	}
	return err
}

// take makes the lock of this incarnation. No other user can open it before it is held.
func (i *Incarnation) createLock() error {
	fd, err := createFile(i.dir+newLockName, 0o600)
	if err != nil {
		return err
	}
	err = i.writeAll(fd, []byte(i.state.incarnation))
	if err == nil && !i.heartbeats {
		err = lockFile(fd)
	}
	if err == nil {
		err = unix.Fchmod(fd, worldReadable)
	}
	if err == nil {
		err = unix.Rename(i.dir+newLockName, i.dir+lockName)
	}
	if err != nil {
		_ = unix.Close(fd)
		_ = unix.Unlink(i.dir + newLockName)
		return err
	}
	i.lock = fd
	return nil
}

// reserved is more than a state takes, in bytes.
const reservedSize = 256

// reserve makes a file for the next state, so that there is room for it also if
// the volume is full by then.
func (i *Incarnation) reserveState() error {
	fd, err := createFile(i.dir+newStateName, worldReadable)
	if err != nil {
		return err
	}
	if err := i.writeAll(fd, make([]byte, reservedSize)); err != nil {
		_ = unix.Close(fd)
		return err
	}
	i.reserved = fd
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
const minInheritedFD = 100

// Bequeath has the lock outlive execve(2): the command that this process becomes holds
// it from then on.
func (i *Incarnation) BequeathLock() error {
	if i.lock < 0 {
		return i.err
	}
	if _, err := unix.FcntlInt(uintptr(i.lock), unix.F_DUPFD, minInheritedFD); err == nil {
		return nil
	}
	// There are limits below that.
	_, err := unix.FcntlInt(uintptr(i.lock), unix.F_DUPFD, 3)
	return err
}

// String names the directory.
func (i *Incarnation) String() string { return strconv.Quote(i.dir) }
