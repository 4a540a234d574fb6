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
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/output"
)

// descriptorOf returns the file descriptor of a stream in the command.
func descriptorOf(s ring.Stream) int { return int(s) + 1 }

// A pipe replaces the command's stdout or stderr.
type pipe struct {
	stream     ring.Stream
	read       int       // the supervisor's end
	write      int       // the command's end
	own        int       // the supervisor's own writable end
	original   int       // a duplicate of the descriptor that the pipe replaces
	created    time.Time // lastWrite before the first write
	tee        int       // where a copy is written, -1 for none
	teeOffset  int64     // how many bytes of the stream were copied, or lost
	teeDropped int64     // how many bytes of the copy were lost
	pace       pace
	blocked    bool // the command waits for room in the ring

	ending bool  // markEnd was called
	end    int64 // the end of the output, as of markEnd
	ended  bool  // the ring has all bytes up to end

	heldOpen bool  // another process can still print
	afterEnd int64 // how many bytes were printed after the end, as of Close
}

// openPipe replaces a stream by a pipe, for the supervisor as well: what a process prints
// to /proc/1/fd/1 is output of the container.
func openPipe(s ring.Stream, tee bool) (*pipe, error) {
	before, err := unix.FcntlInt(uintptr(descriptorOf(s)), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, errors.New("duplicating " + s.Name() + ": " + err.Error())
	}
	ends, err := openEnds()
	if err != nil {
		_ = unix.Close(before)
		return nil, errors.New("creating a pipe for " + s.Name() + ": " + err.Error())
	}
	p := &pipe{stream: s, read: ends[0], write: ends[1], original: before, tee: -1}
	p.created = p.lastWrite()
	if tee {
		p.tee = before
	}
	// Another process may empty the pipe, by /proc, between our poll and our read.
	_ = unix.SetNonblock(p.read, true)
	// A program may open /dev/stdout after it has given up root.
	_ = unix.Fchmod(p.write, 0o622)
	p.own = nonblockingWriteEnd(p.write)
	if err := unix.Dup3(p.own, descriptorOf(s), 0); err != nil {
		p.close()
		return nil, errors.New("replacing " + s.Name() + ": " + err.Error())
	}
	return p, nil
}

// nonblockingWriteEnd reopens the writable end of a pipe for the supervisor itself. What
// Go's runtime prints, for example because of GODEBUG, goes to a pipe that only the
// supervisor empties, so writing mustn't block.
func nonblockingWriteEnd(write int) int {
	own, err := unix.Open("/proc/self/fd/"+strconv.Itoa(write), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return write // no /proc
	}
	return own
}

// restore has the supervisor's own descriptor lead to the original file.
func (p *pipe) restore() { _ = unix.Dup3(p.original, descriptorOf(p.stream), 0) }

// close undoes openPipe.
func (p *pipe) close() {
	p.restore()
	for _, fd := range []int{p.read, p.write, p.original} {
		_ = unix.Close(fd)
	}
	if p.own != p.write {
		_ = unix.Close(p.own)
	}
}

// release gives up the supervisor's own writable ends, for a file to which later output
// goes. It doesn't go to the original file, where nothing would mask it.
func (p *pipe) release(to int) {
	_ = unix.Dup3(to, descriptorOf(p.stream), 0)
	for _, fd := range []int{p.write, p.own} {
		_ = unix.Dup3(to, fd, unix.O_CLOEXEC)
	}
}

// noteWriters notes whether another process holds the pipe open. It is certain only after
// release.
func (p *pipe) noteWriters() {
	fds := []unix.PollFd{{Fd: int32(p.read), Events: unix.POLLIN}} //nolint:gosec // descriptors are ints of C
	_, err := unix.Poll(fds, 0)
	p.heldOpen = err == nil && fds[0].Revents&unix.POLLHUP == 0
}

// noteLate notes what other processes have printed after the end.
func (p *pipe) noteLate() {
	p.noteWriters() // first, so that no byte comes later unless the pipe is held open
	p.afterEnd = p.held()
}

const (
	// maxTeeLag bounds how far the command can get ahead of the reader of the tee, in bytes:
	// as far as with a plain pipe.
	maxTeeLag = 64 << 10
	// pipeBuf is how much a writable pipe accepts without blocking, in bytes (PIPE_BUF).
	pipeBuf = 4096
)

// teeLag returns how many bytes are still to be copied to the tee.
func (p *pipe) teeLag(w *ring.Writer) int64 {
	if p.tee < 0 {
		return 0
	}
	return w.Written(p.stream) - p.teeOffset
}

// hasBytes reports whether take would find bytes.
func (p *pipe) hasBytes() bool {
	held, err := unix.IoctlGetInt(p.read, unix.TIOCINQ)
	return err == nil && held > 0 && !p.ended
}

func (p *pipe) poll(w *ring.Writer, fds []unix.PollFd) []unix.PollFd {
	behind := p.teeLag(w)
	if behind > 0 {
		fds = append(fds, unix.PollFd{Fd: int32(p.tee), Events: unix.POLLOUT}) //nolint:gosec // descriptors are ints of C
	}
	if behind < maxTeeLag && !p.ended && !p.blocked && !p.pace.isResting(time.Now()) {
		fds = append(fds, unix.PollFd{Fd: int32(p.read), Events: unix.POLLIN}) //nolint:gosec // descriptors are ints of C
	}
	return fds
}

// take moves bytes into the ring, and returns the pause before the next call:
// output.Forever if a descriptor will tell.
func (p *pipe) take(w *ring.Writer, b *brake) time.Duration {
	began, before := time.Now(), w.Written(p.stream)
	p.blocked = false
	defer p.writeTee(w)
	if left := p.pace.pauseLeft(began); left > 0 {
		return left
	}
	for range maxReads {
		p.writeTee(w)
		if p.ended || p.teeLag(w) >= maxTeeLag {
			return output.Forever
		}
		if left := p.block(w, b); p.blocked {
			return left
		}
		n, err := w.ReadFrom(p.stream, p.read)
		nothing := err != nil || n == 0
		if p.ending && (nothing || w.Written(p.stream) >= p.end) {
			p.ended = true
			w.End(p.stream)
			return output.Forever
		}
		if nothing {
			return p.pace.noteRead(began, w.Written(p.stream)-before)
		}
	}
	return 0
}

// roomBeforeEnd is the room that a command leaves in the ring, in bytes, if it waits for
// room: for one more read, for what its pipe still holds when it ends, and for lines of
// the supervisor, which doesn't wait.
const roomBeforeEnd = ring.MaxPipeRead + 64<<10 + 16<<10

// isShort reports whether the ring has too little room for the next read.
func (p *pipe) isShort(w *ring.Writer) bool {
	if p.ending {
		return w.Room(p.stream) < min(p.held(), ring.MaxPipeRead)
	}
	return w.Room(p.stream) < roomBeforeEnd
}

// block has the command wait if it has printed more than the ring has room for, and
// returns for how long at most.
func (p *pipe) block(w *ring.Writer, b *brake) time.Duration {
	if !p.isShort(w) || p.held() == 0 {
		return 0
	}
	left := b.left(time.Now())
	if left > 0 {
		w.AwaitProgress()
		p.blocked = p.isShort(w)
	}
	return left
}

// held returns how many bytes the pipe holds.
func (p *pipe) held() int64 {
	count, _ := unix.IoctlGetInt(p.read, unix.TIOCINQ)
	return int64(count)
}

// printed returns how many bytes were printed so far: once the command has ended, with
// those that the pipe still holds.
func (p *pipe) printed(w *ring.Writer) int64 { return max(w.Written(p.stream), p.end) }

// markEnd has take stop after what the pipe holds now. A descendant of the command that
// goes on printing delays nothing.
func (p *pipe) markEnd(w *ring.Writer, nothing int) {
	p.release(nothing)
	p.noteWriters()
	p.ending, p.end, p.pace = true, w.Written(p.stream)+p.held(), pace{}
}

// writeTee copies bytes to the tee until that would block. If the tee has no reader any
// more, the copy ends.
func (p *pipe) writeTee(w *ring.Writer) {
	for p.teeLag(w) > 0 {
		if gone := p.teeLag(w) - w.Capacity(p.stream); gone > 0 {
			p.teeOffset, p.teeDropped = p.teeOffset+gone, p.teeDropped+gone
		}
		fds := []unix.PollFd{{Fd: int32(p.tee), Events: unix.POLLOUT}} //nolint:gosec // descriptors are ints of C
		if n, err := unix.Poll(fds, 0); err != nil || n == 0 {
			return
		}
		if fds[0].Revents&unix.POLLERR != 0 {
			p.tee = -1 // without a write, whose SIGPIPE the supervisor would forward to the command
			return
		}
		data := w.Peek(p.stream, p.teeOffset, pipeBuf)
		n, err := signals.Write(p.tee, data)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			return
		case errors.Is(err, unix.EPIPE):
			p.tee = -1
		case err != nil: // such as a full disk: later bytes may succeed
			p.teeOffset, p.teeDropped = p.teeOffset+int64(len(data)), p.teeDropped+int64(len(data))
		default:
			p.teeOffset += int64(n)
		}
	}
}
