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

	"github.com/entrypointer/entrypointer/internal/files"
)

// An Incarnation is one run of this container. It publishes the run's phases to other
// containers.
type Incarnation struct {
	dir        string
	heartbeats bool // publish heartbeats instead of holding a lock
	write      func(fd int, data []byte) (int, error)

	lock      int // descriptor of the lock file, -1 before it exists
	reserved  int // descriptor of the preallocated file for the next state, -1 if there is none
	state     state
	published bool      // other containers can read the state
	next      time.Time // when Act has work to do
	err       error
}

const (
	// heartbeatInterval is the time between two heartbeats.
	heartbeatInterval = 5 * time.Second
	// retryInterval is the time after which a failed write is repeated.
	retryInterval = time.Second
	// lastRetryInterval replaces retryInterval in the phase Ended, when the supervisor
	// does nothing else.
	lastRetryInterval = 50 * time.Millisecond
)

// NewIncarnation returns an incarnation that publishes in dir from the first Publish
// on. The write function replaces write(2). With heartbeats, the incarnation rewrites
// its state periodically instead of holding a lock.
func NewIncarnation(dir string, heartbeats bool, write func(fd int, data []byte) (int, error)) *Incarnation {
	return &Incarnation{dir: dir, heartbeats: heartbeats, write: write, lock: -1, reserved: -1, state: state{incarnation: newIncarnationName()}}
}

// newIncarnationName returns a unique name.
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

// Publish writes the phase for other containers to read. The exit code counts only in
// the phases Finishing and Ended. If the write fails, Act repeats it.
func (i *Incarnation) Publish(phase Phase, exitCode int) {
	i.state.phase, i.state.exitCode, i.published = phase, exitCode, false
	i.next = time.Time{}
	i.Act()
}

// Phase returns the last published phase, or "" before the first Publish.
func (i *Incarnation) Phase() Phase { return i.state.phase }

// Act repeats a failed write and sends due heartbeats. It returns when to call it
// again, and false if no more calls are needed.
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
		if i.state.phase == Ended {
			i.next = now.Add(lastRetryInterval)
		}
		return i.next, true
	}
	i.published = true
	i.next = now.Add(heartbeatInterval)
	return i.next, heartbeats
}

// Err is the error of the last write, nil if it succeeded.
func (i *Incarnation) Err() error { return i.err }

// publish creates the lock file at the first call, and writes the state.
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
		err = files.WriteAll(i.reserved, text, i.write)
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
		_ = i.reserveState() // on failure, the next publish allocates the file itself
	}
	return err
}

// Sync writes the lock, the state and their names to the disk, and waits for the disk.
// It reads no data that other methods change after the first Publish.
func (i *Incarnation) Sync() {
	_ = unix.Fsync(i.lock)
	for _, name := range []string{stateName, ""} {
		// The command may have replaced the file, by a FIFO for instance.
		fd, err := unix.Open(i.dir+name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err == nil {
			_ = unix.Fsync(fd)
			_ = unix.Close(fd)
		}
	}
}

// createLock creates the lock file of this incarnation. The file has no name before it
// is locked: a neighbour with the same user could take a read lock first, which needs
// no writable descriptor. Some file systems have no nameless files, and a security
// profile can refuse to link them. There, a neighbour can delay the lock.
func (i *Incarnation) createLock() error {
	fd, err := unix.Open(i.dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, lockedMode)
	if err == nil {
		if err = i.publishLock(fd, linkFile); err == nil {
			return nil
		}
	}
	fd, err = createFile(i.dir+newLockName, lockedMode)
	if err != nil {
		return err
	}
	return i.publishLock(fd, nil)
}

// lockedMode is the file mode of a lock file before it is locked: it keeps other users
// from opening the file.
const lockedMode = 0o600

// publishLock writes and locks a new file, and gives it its path. The file has the path
// newLockName, or gets it by link. If that fails, publishLock closes the file.
func (i *Incarnation) publishLock(fd int, link func(fd int, path string) error) error {
	err := files.WriteAll(fd, []byte(i.state.incarnation), i.write)
	if err == nil && !i.heartbeats {
		err = lockFile(fd)
	}
	if err == nil {
		err = unix.Fchmod(fd, worldReadable)
	}
	if err == nil && link != nil {
		err = link(fd, i.dir+newLockName)
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

// reservedSize is larger than any state, in bytes.
const reservedSize = 256

// reserveState preallocates the file for the next state, so that the state can be
// written even if the volume is full by then.
func (i *Incarnation) reserveState() error {
	fd, err := createFile(i.dir+newStateName, worldReadable)
	if err != nil {
		return err
	}
	if err := files.WriteAll(fd, make([]byte, reservedSize), i.write); err != nil {
		_ = unix.Close(fd)
		return err
	}
	i.reserved = fd
	return nil
}

// minInheritedFD is the lowest descriptor number for a lock that the command inherits.
// Shell scripts use descriptors up to 9, and shells use those from 10 on internally.
const minInheritedFD = 100

// BequeathLock duplicates the lock's descriptor without close-on-exec. After execve(2),
// the command holds the lock, so other containers see that it lives.
func (i *Incarnation) BequeathLock() error {
	if i.lock < 0 {
		return i.err
	}
	if _, err := unix.FcntlInt(uintptr(i.lock), unix.F_DUPFD, minInheritedFD); err == nil {
		return nil
	}
	// RLIMIT_NOFILE may be lower than minInheritedFD.
	_, err := unix.FcntlInt(uintptr(i.lock), unix.F_DUPFD, 3)
	return err
}

// String is the quoted path of the directory.
func (i *Incarnation) String() string { return strconv.Quote(i.dir) }
