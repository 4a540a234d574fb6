// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package capture

import (
	"errors"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/ring"
	"github.com/entrypointer/entrypointer/internal/supervisor"
)

// fileOf is the descriptor by which the command knows a stream.
func fileOf(s ring.Stream) int { return int(s) + 1 }

// A pipe is the command's stdout or stderr.
type pipe struct {
	stream ring.Stream
	read   int // our end
	write  int // the command's
	before int // where it went before
	tee    int // where it goes as well, -1 if nowhere
	teed   int64
	untold int64 // how many bytes couldn't go there
	pace   pace

	ending bool  // the command has ended
	end    int64 // the offset up to which it has printed then
	ended  bool  // all of that is in the ring
}

// openPipe puts a pipe in the place of a stream. Our own descriptor is the pipe as
// well: what is printed to /proc/1/fd/1 belongs to the command's output.
func openPipe(s ring.Stream, tee bool) (*pipe, error) {
	before, err := unix.FcntlInt(uintptr(fileOf(s)), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, errors.New("duplicating " + s.Name() + ": " + err.Error())
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		_ = unix.Close(before)
		return nil, errors.New("making a pipe for " + s.Name() + ": " + err.Error())
	}
	p := &pipe{stream: s, read: ends[0], write: ends[1], before: before, tee: -1}
	if tee {
		p.tee = before
	}
	// Somebody else may read it, by /proc, between our look and our read.
	_ = unix.SetNonblock(p.read, true)
	// A program that gives up root may open its own /dev/stdout after that.
	_ = unix.Fchmod(p.write, 0o622)
	if err := unix.Dup3(ownEnd(p.write), fileOf(s), 0); err != nil {
		p.close()
		return nil, errors.New("making a pipe of " + s.Name() + ": " + err.Error())
	}
	return p, nil
}

// ownEnd is the end of a pipe to write to that is for ourselves. It doesn't wait: what
// Go's runtime prints, if the environment asks for that (GODEBUG), goes to a pipe that
// nobody but us empties.
func ownEnd(write int) int {
	own, err := unix.Open("/proc/self/fd/"+strconv.Itoa(write), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return write // no /proc
	}
	return own
}

// restore has our descriptor lead to where it led before.
func (p *pipe) restore() { _ = unix.Dup3(p.before, fileOf(p.stream), 0) }

// close undoes openPipe.
func (p *pipe) close() {
	p.restore()
	for _, fd := range []int{p.read, p.write, p.before} {
		_ = unix.Close(fd)
	}
}

const (
	// ahead is how much of a stream the command can print before what reads it from
	// where it went before has taken it, in bytes: as much as a pipe holds.
	ahead = 64 << 10
	// atOnce is what a pipe takes without waiting if it takes anything, in bytes
	// (PIPE_BUF).
	atOnce = 4096
)

// behind is how much is still to go to where it went before.
func (p *pipe) behind(w *ring.Writer) int64 {
	if p.tee < 0 {
		return 0
	}
	return w.Written(p.stream) - p.teed
}

func (p *pipe) poll(w *ring.Writer, fds []unix.PollFd) []unix.PollFd {
	behind := p.behind(w)
	if behind > 0 {
		fds = append(fds, unix.PollFd{Fd: int32(p.tee), Events: unix.POLLOUT}) //nolint:gosec // descriptors are ints of C
	}
	if behind < ahead && !p.ended && !p.pace.rests(time.Now()) {
		fds = append(fds, unix.PollFd{Fd: int32(p.read), Events: unix.POLLIN}) //nolint:gosec // descriptors are ints of C
	}
	return fds
}

// take moves what there is, and returns when there may be more: supervisor.Forever if
// a descriptor tells.
func (p *pipe) take(w *ring.Writer, rounds int) time.Duration {
	began, before := time.Now(), w.Written(p.stream)
	defer p.pass(w)
	if left := p.pace.left(began); left > 0 {
		return left
	}
	for range rounds {
		p.pass(w)
		if p.ended || p.behind(w) >= ahead {
			return supervisor.Forever
		}
		n, err := w.ReadFrom(p.stream, p.read)
		nothing := err != nil || n == 0
		if p.ending && (nothing || w.Written(p.stream) >= p.end) {
			p.ended = true
			w.End(p.stream)
			return supervisor.Forever
		}
		if nothing {
			return p.pace.after(began, w.Written(p.stream)-before)
		}
	}
	return 0
}

// finish has take end with what the pipe holds now: a process that goes on printing
// holds nobody up.
func (p *pipe) finish(w *ring.Writer) {
	held, _ := unix.IoctlGetInt(p.read, unix.TIOCINQ)
	p.ending, p.end, p.pace = true, w.Written(p.stream)+int64(held), pace{}
}

// pass writes to where the stream went before, as long as that doesn't wait. When
// nobody reads there any more, nothing is written there any more.
func (p *pipe) pass(w *ring.Writer) {
	for p.behind(w) > 0 {
		if p.behind(w) > ring.Capacity {
			gone := p.behind(w) - ring.Capacity
			p.teed, p.untold = p.teed+gone, p.untold+gone
		}
		fds := []unix.PollFd{{Fd: int32(p.tee), Events: unix.POLLOUT}} //nolint:gosec // descriptors are ints of C
		if n, err := unix.Poll(fds, 0); err != nil || n == 0 {
			return
		}
		if fds[0].Revents&unix.POLLERR != 0 {
			p.tee = -1 // before the kernel sends us a SIGPIPE, which would be passed on
			return
		}
		data := w.Last(p.stream, p.teed, atOnce)
		n, err := supervisor.Write(p.tee, data)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			return
		case errors.Is(err, unix.EPIPE):
			p.tee = -1
		case err != nil: // such as a disk that is full, for now
			p.teed, p.untold = p.teed+int64(len(data)), p.untold+int64(len(data))
		default:
			p.teed += int64(n)
		}
	}
}
