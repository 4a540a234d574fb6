// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"errors"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/await"
)

// A pipe leads from the stdout of one container, the writer, to the stdin of another
// one, the reader. It is a FIFO in a directory that only these two have, and that only
// the reader can write to. Its name has the incarnations of both: one life of each has
// one pipe, and what a past life has left isn't taken for it.
//
// The reader makes it while it waits, opens it, and waits until the writer is started.
// The writer waits until it can open it, starts its command with it, and tells in its
// state whose pipe that is. Then the reader removes the name and starts its own command.
// Nothing is copied.

// PipesSuffix makes the directory of a reader's pipes of that in which it tells how far
// it is. No container's name has a dot.
const PipesSuffix = ".stdin"

// What the other end of a pipe has to do.
const (
	IsWriting Condition = "writing"
	IsReading Condition = "reading"
)

// Ends are those after which a container isn't started again.
type FinalOutcomes struct{ Completed, Failed bool }

// ParseEnds reads completed, failed, or exited for both.
func ParseFinalOutcomes(value string) (e FinalOutcomes, ok bool) {
	switch value {
	case "completed":
		return FinalOutcomes{Completed: true}, true
	case "failed":
		return FinalOutcomes{Failed: true}, true
	case "exited":
		return FinalOutcomes{Completed: true, Failed: true}, true
	}
	return FinalOutcomes{}, false
}

// A Partner is the container at the other end of a pipe.
type Partner struct {
	Dir   string // where it tells how far it is
	Final FinalOutcomes
}

// afterEnd is the state of who waits for a partner that has ended.
func (p Partner) stateAfterEnd(s observation) await.State {
	final := p.Final.Failed
	if s.state.phase.commandEnded() && s.state.exitCode == 0 {
		final = p.Final.Completed
	}
	if final {
		return await.Failed
	}
	return await.Waiting
}

func (p Partner) unmet(c Condition, s await.State, seen string, problem bool) Unmet {
	return Unmet{Dependency: Dependency{Condition: c, Dir: p.Dir}, Failed: s == await.Failed, Seen: seen, Problem: problem}
}

// An End is one of a pipe's: whoever has it waits for the other end.
type PipeEnd interface {
	// lookAcross returns how far the other container is. Who is connected may be so no
	// longer at the next look.
	tryConnect(now time.Time) (await.State, Unmet)
	// watched is a directory in which something happens before a look finds another state.
	watchedDir() string
}

// pipeName is that of the pipe between two incarnations.
func pipeName(writer, reader string) string { return "/stdin." + writer + "." + reader }

// newPipe is its name until others can open it.
const newPipeName = "/stdin.new"

// forWriters is the mode of a pipe whose writer may be any user. The directory keeps
// other containers away.
const writableByAll = 0o622

// A ReadEnd is the stdin of a container.
type ReadEnd struct {
	own    *Incarnation
	writer Partner
	observer
	dir     string // of the pipes
	cleaned bool   // nothing of past lives is there

	fd                int    // -1 while there is no pipe
	writerIncarnation string // the writer's incarnation that it is for
	path              string // "" once it has no name any more
	writerCompleted   bool   // the writer has completed: what is in the pipe is all

	next          time.Time // when to look for the writer's end
	writerEnded   bool      // the writer has
	writerFailure string    // how, if it is no success
}

// NewReadEnd returns the end of a container that others see as own.
func NewReadEnd(own *Incarnation, writer Partner) *ReadEnd {
	return &ReadEnd{own: own, writer: writer, observer: observer{dir: writer.Dir}, dir: own.dir + PipesSuffix, fd: -1}
}

func (r *ReadEnd) watchedDir() string { return r.writer.Dir }

func (r *ReadEnd) tryConnect(now time.Time) (await.State, Unmet) {
	if r.writerCompleted {
		return await.Met, Unmet{}
	}
	s := r.observe(now)
	state, seen, problem := await.Waiting, s.String(), s.problem != ""
	connected := r.isConnected(s)
	if connected {
		r.unlink()
	}
	switch ended := s.state.phase.commandEnded(); {
	case problem, s.liveness == absent, s.liveness == undetermined && !ended:
	case ended && s.state.exitCode == 0 && connected:
		r.writerCompleted, r.writerEnded, state = true, true, await.Met
	case ended || s.liveness == dead:
		state = r.writer.stateAfterEnd(s)
	case !s.state.phase.commandRuns():
		if err := r.providePipe(s.incarnation); err != nil {
			seen, problem = "a pipe can't be made for it: "+err.Error(), true
		}
	case connected:
		state = await.Met
	default:
		seen += ", and writes to a past life of this container"
	}
	return state, r.writer.unmet(IsWriting, state, seen, problem)
}

// isConnected reports whether the life of the writer that was seen has opened the pipe.
func (r *ReadEnd) isConnected(s observation) bool {
	return s.problem == "" && r.fd >= 0 && s.incarnation == r.writerIncarnation && s.state.pipeReader == r.own.state.incarnation
}

// provide makes the pipe for a life of the writer, unless it is there.
func (r *ReadEnd) providePipe(writer string) error {
	if r.writerIncarnation == writer {
		return nil
	}
	r.Close()
	if !r.cleaned {
		if err := removeStalePipes(r.dir); err != nil {
			return err
		}
		r.cleaned = true
	}
	fd, err := makePipe(r.dir + newPipeName)
	if err != nil {
		return err
	}
	at := r.dir + pipeName(writer, r.own.state.incarnation)
	if err := unix.Rename(r.dir+newPipeName, at); err != nil {
		_ = unix.Close(fd)
		_ = unix.Unlink(r.dir + newPipeName) // or it would be in the way of the next
		return err
	}
	r.fd, r.writerIncarnation, r.path = fd, writer, at
	return nil
}

// makePipe makes a FIFO, and opens it to be read.
func makePipe(at string) (fd int, err error) {
	if err := unix.Mkfifo(at, 0o600); err != nil {
		return -1, err
	}
	fd, err = unix.Open(at, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		if err = unix.Fchmod(fd, writableByAll); err == nil {
			return fd, nil
		}
		_ = unix.Close(fd)
	}
	_ = unix.Unlink(at)
	return -1, err
}

// empty removes what a past life has left in the directory of the pipes.
func removeStalePipes(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	buf := make([]byte, 4<<10)
	for range 64 { // more than that, only the container's own command can have left
		n, err := unix.ReadDirent(fd, buf)
		if err != nil || n == 0 {
			return err
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			if strings.HasPrefix(name, "stdin.") {
				_ = unix.Unlink(dir + "/" + name)
			}
		}
	}
	return nil
}

// File is the descriptor for the command.
func (r *ReadEnd) File() (fd uintptr, err error) { return blockingFD(r.fd) }

func blockingFD(fd int) (uintptr, error) {
	if fd < 0 {
		return 0, errors.New("the pipe isn't open")
	}
	return uintptr(fd), unix.SetNonblock(fd, false)
}

func (r *ReadEnd) unlink() {
	if r.path != "" {
		_ = unix.Unlink(r.path)
		r.path = ""
	}
}

// Close closes the end. When the command has closed it as well, the writer gets SIGPIPE.
func (r *ReadEnd) Close() {
	r.unlink()
	if r.fd >= 0 {
		_ = unix.Close(r.fd)
		r.fd, r.writerIncarnation = -1, ""
	}
}

// Writer is the name of the container that writes.
func (r *ReadEnd) WriterName() string { return path.Base(r.writer.Dir) }

// watchEvery is the time between two looks for the end of a writer that may be
// started again at once. The kubelet takes longer to do that.
const watchWriterInterval = 500 * time.Millisecond

// Watch takes note of the writer's end while the command runs, if another life could
// take the place of what is said of that. It returns when to be called again, and whether.
func (r *ReadEnd) WatchWriter(now time.Time) (next time.Time, will bool) {
	if r.writer.Final.Completed || r.writerEnded {
		return time.Time{}, false
	}
	if !now.Before(r.next) {
		r.next = now.Add(watchWriterInterval)
		r.WriterOutcome(now)
	}
	return r.next, !r.writerEnded
}

// IsClosed reports whether the writer has closed the pipe: who reads it comes to its end.
func (r *ReadEnd) IsClosedByWriter() bool {
	fds := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}} //nolint:gosec // descriptors are ints of C
	for {
		if _, err := unix.Poll(fds, 0); err != unix.EINTR {
			return fds[0].Revents&unix.POLLHUP != 0
		}
	}
}

// Outcome is whether the life of the writer that the pipe was for has ended, and, if
// that was no success, how. While it hasn't, lives says whether that is for sure.
func (r *ReadEnd) WriterOutcome(now time.Time) (ended, lives bool, failure string) {
	if r.writerEnded {
		return true, false, r.writerFailure
	}
	s := r.observe(now)
	switch {
	case s.problem != "", s.liveness == absent, s.liveness == undetermined:
		return false, false, s.String()
	case s.incarnation != r.writerIncarnation:
		r.writerFailure = "it ended without a word, and was started again"
	case s.state.phase.commandEnded() && s.state.exitCode == 0:
	case s.state.phase.commandEnded(), s.liveness == dead:
		r.writerFailure = s.String()
	default:
		return false, true, ""
	}
	r.writerEnded = true
	return true, false, r.writerFailure
}

// A WriteEnd is the stdout of a container.
type WriteEnd struct {
	own    *Incarnation
	reader Partner
	observer
	dir string // of the pipes
	fd  int    // -1 while it isn't open
}

// NewWriteEnd returns the end of a container that others see as own.
func NewWriteEnd(own *Incarnation, reader Partner) *WriteEnd {
	return &WriteEnd{own: own, reader: reader, observer: observer{dir: reader.Dir}, dir: reader.Dir + PipesSuffix, fd: -1}
}

func (w *WriteEnd) watchedDir() string { return w.dir }

func (w *WriteEnd) tryConnect(now time.Time) (await.State, Unmet) {
	if w.IsConnected() {
		return await.Met, Unmet{}
	}
	s := w.observe(now)
	state, seen, problem := await.Waiting, s.String(), s.problem != ""
	switch ended := s.state.phase == Ended; {
	case problem, s.liveness == absent, s.liveness == undetermined && !ended:
	case ended || s.liveness == dead:
		state = w.reader.stateAfterEnd(s)
	default:
		switch err := w.open(s.incarnation); err {
		case nil:
			state = await.Met
		case unix.ENOENT: // it isn't made yet
		case unix.ENXIO: // it is left of a life that has just ended
		default:
			seen, problem = "its pipe can't be opened: "+err.Error(), true
		}
	}
	return state, w.reader.unmet(IsReading, state, seen, problem)
}

var errNotPipe = errors.New("it is no pipe")

// open opens the pipe to a life of the reader. Whatever is there, it doesn't wait, and
// follows no link.
func (w *WriteEnd) open(reader string) error {
	fd, err := unix.Open(w.dir+pipeName(w.own.state.incarnation, reader), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
	case unix.ELOOP, unix.EISDIR, unix.EROFS: // a link, a directory, a file
		return errNotPipe
	default:
		return err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFIFO {
		err = errNotPipe
	}
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	w.fd, w.own.state.pipeReader = fd, reader
	return nil
}

// IsConnected reports whether the pipe is open, and its reader hasn't died since.
func (w *WriteEnd) IsConnected() bool {
	if w.fd < 0 {
		return false
	}
	fds := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLOUT}} //nolint:gosec // descriptors are ints of C
	for {
		if _, err := unix.Poll(fds, 0); err != unix.EINTR {
			break
		}
	}
	if fds[0].Revents&unix.POLLERR == 0 {
		return true
	}
	w.Close()
	w.own.state.pipeReader = ""
	return false
}

// File is the descriptor for the command.
func (w *WriteEnd) File() (fd uintptr, err error) { return blockingFD(w.fd) }

// Close closes the end. When the command has closed it as well, the reader comes to the
// end of its input.
func (w *WriteEnd) Close() {
	if w.fd >= 0 {
		_ = unix.Close(w.fd)
		w.fd = -1
	}
}
