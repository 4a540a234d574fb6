// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package capture

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/supervisor/output"
)

// The kernel doesn't tell in which order two pipes were written to. A supervisor that has
// waited for the CPU finds bytes in both. The modification time of a pipe, which is that of
// the last write, then says which of them comes first.

// ownDirectory is a directory in memory that each container has for itself. Root can write
// to it, also with a read-only root file system. A FIFO in /dev/shm, which anybody can
// write to, could be opened by other containers of the pod before its name is removed, and
// read unmasked.
const ownDirectory = "/dev"

// openEnds opens both ends of a new pipe. It is a FIFO without a name where that can be
// created: from Linux 6.15 on, the kernel keeps the modification time of these only.
func openEnds() (ends [2]int, err error) {
	if ends, err = openFIFO(ownDirectory); err != nil {
		err = unix.Pipe2(ends[:], unix.O_CLOEXEC)
	}
	return ends, err
}

// openFIFO opens both ends of a new FIFO in a directory, and removes its name.
func openFIFO(directory string) (ends [2]int, err error) {
	path := directory + "/.entrypointer-" + strconv.Itoa(unix.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return ends, err
	}
	read, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = unix.Unlink(path)
		return ends, err
	}
	// Opened by its descriptor, so that both are ends of the same FIFO.
	write, err := unix.Open("/proc/self/fd/"+strconv.Itoa(read), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	_ = unix.Unlink(path)
	if err != nil {
		_ = unix.Close(read)
		return ends, err
	}
	if err = checkFIFO(read, write); err != nil {
		_, _ = unix.Close(read), unix.Close(write)
		return ends, err
	}
	return [2]int{read, write}, nil
}

// checkFIFO checks that a FIFO is that of openFIFO, and that programs can open /dev/stdout:
// AppArmor may refuse that for a file without a name.
func checkFIFO(read, write int) error {
	if !isOwnFIFO(read) {
		return unix.EEXIST // another process has replaced it
	}
	again, err := unix.Open("/proc/self/fd/"+strconv.Itoa(write), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(again)
	}
	return err
}

// isOwnFIFO reports whether a descriptor is that of a FIFO which only this user can open.
func isOwnFIFO(fd int) bool {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return err == nil && st.Mode == unix.S_IFIFO|0o600 && int(st.Uid) == unix.Geteuid()
}

// lastWrite returns the time of the last write to a pipe.
func (p *pipe) lastWrite() time.Time {
	var st unix.Stat_t
	if unix.Fstat(p.read, &st) != nil {
		return time.Time{}
	}
	return time.Unix(st.Mtim.Unix())
}

// hasWriteTime reports whether lastWrite is the time of a write: where the kernel keeps
// none, it remains the time of creation.
func (p *pipe) hasWriteTime() bool { return p.lastWrite().After(p.created) }

// takeAll moves bytes of both pipes into the ring. If both have some, those come first that
// were written first, and come at the time when they were written, if the kernel knows it.
func (c *Capture) takeAll() time.Duration {
	order, pause := c.pipes, output.Forever
	timed := order[0].hasBytes() && order[1].hasBytes() && order[0].hasWriteTime() && order[1].hasWriteTime()
	if timed && order[1].lastWrite().Before(order[0].lastWrite()) {
		order[0], order[1] = order[1], order[0]
	}
	for _, p := range order {
		if timed {
			c.ring.ComesAt(p.lastWrite())
		}
		pause = min(pause, p.take(c.ring, &c.brake))
	}
	c.ring.ComesAt(time.Time{})
	return pause
}
