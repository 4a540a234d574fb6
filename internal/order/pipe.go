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
	"github.com/entrypointer/entrypointer/pkg/conditions"
)

// A pipe connects the stdout of one container, the writer, to the stdin of another, the
// reader. It is a FIFO in a directory that only these two containers mount, and that
// only the reader can write to. The FIFO's name contains the incarnations of both. So
// each pair of incarnations has its own pipe, and a pipe that an earlier incarnation
// left is never mistaken for it.
//
// The reader creates the FIFO and opens it before its command starts. Then it waits
// until the writer has started. The writer waits until it can open the FIFO, starts its
// command with it, and publishes the reader's incarnation in its state. Then the reader
// removes the FIFO's name and starts its own command. The supervisors copy no data.

// PipesSuffix is appended to the reader's order directory to get the directory of its
// pipes. No container's name contains a dot, so the two can't collide.
const PipesSuffix = ".stdin"

// The conditions that pipe ends wait for.
const (
	IsWriting conditions.Condition = "writing"
	IsReading conditions.Condition = "reading"
)

// A Partner is the container at the other end of a pipe.
type Partner struct {
	Dir   string // its order directory
	Final FinalEnds
}

// stateAfterEnd is Failed if the partner has ended and won't be restarted, and else
// Waiting.
func (p Partner) stateAfterEnd(s observation) await.State {
	if p.Final.include(s) {
		return await.Failed
	}
	return await.Waiting
}

func (p Partner) unmet(c conditions.Condition, s await.State, seen string, problem bool) Unmet {
	return Unmet{Dependency: Dependency{Condition: c, Dir: p.Dir}, Failed: s == await.Failed, Seen: seen, Problem: problem}
}

// A PipeEnd is this container's end of a pipe.
type PipeEnd interface {
	// tryConnect observes the partner and connects to it if possible. A connected end
	// can lose its partner before the next call.
	tryConnect(now time.Time) (await.State, Unmet)
	// watchedDir is the directory that changes before tryConnect can return another
	// state.
	watchedDir() string
}

// pipeName is the FIFO's name for a pair of incarnations.
func pipeName(writer, reader string) string { return "/stdin." + writer + "." + reader }

// newPipeName is the FIFO's name until the writer may open it.
const newPipeName = "/stdin.new"

// writableByAll is the FIFO's mode, because the writer may run as any user. The mount
// of the directory keeps other containers away.
const writableByAll = 0o622

// A ReadEnd is the reader's end: it becomes the stdin of the command.
type ReadEnd struct {
	own    *Incarnation
	writer Partner
	observer
	dir     string // of the pipes
	cleaned bool   // pipes of earlier incarnations are removed

	fd                int    // -1 while there is no pipe
	writerIncarnation string // the incarnation that may open this pipe
	path              string // of the FIFO; "" once its name is removed
	writerCompleted   bool   // the writer has succeeded, so the pipe contains its whole output

	next          time.Time // when WatchWriter observes the writer again
	writerEnded   bool
	writerFailure string // how the writer ended, "" after a success
}

// NewReadEnd returns the reader's end of a pipe. Other containers see the reader as
// own.
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
			seen, problem = "no pipe can be created for it: "+err.Error(), true
		}
	case connected:
		state = await.Met
	default:
		seen += ", but is connected to an earlier incarnation of this container"
	}
	return state, r.writer.unmet(IsWriting, state, seen, problem)
}

// isConnected reports whether the observed incarnation of the writer has opened the
// current pipe.
func (r *ReadEnd) isConnected(s observation) bool {
	return s.problem == "" && r.fd >= 0 && s.incarnation == r.writerIncarnation && s.state.pipeReader == r.own.state.incarnation
}

// providePipe creates the pipe for an incarnation of the writer, unless it exists.
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
		_ = unix.Unlink(r.dir + newPipeName) // else the next Mkfifo would fail
		return err
	}
	r.fd, r.writerIncarnation, r.path = fd, writer, at
	return nil
}

// makePipe creates a FIFO and opens it for reading.
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

// removeStalePipes removes the FIFOs that earlier incarnations left in dir.
func removeStalePipes(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	buf := make([]byte, 4<<10)
	for range 64 { // bounds the work if the container's own command has filled the directory
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

// File returns the descriptor for the command's stdin.
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

// Close closes the supervisor's copy of the descriptor. The writer gets SIGPIPE once
// the command has closed its copy as well.
func (r *ReadEnd) Close() {
	r.unlink()
	if r.fd >= 0 {
		_ = unix.Close(r.fd)
		r.fd, r.writerIncarnation = -1, ""
	}
}

// WriterName is the name of the writer's container.
func (r *ReadEnd) WriterName() string { return path.Base(r.writer.Dir) }

// watchWriterInterval is shorter than the kubelet takes to restart a container, so
// WatchWriter sees the state of an ended writer before a new incarnation replaces it.
const watchWriterInterval = 500 * time.Millisecond

// WatchWriter records the writer's outcome while the command runs, because a restarted
// writer would overwrite it. It returns when to call it again, and false if no more
// calls are needed.
func (r *ReadEnd) WatchWriter(now time.Time) (next time.Time, will bool) {
	if r.writer.Final.Codes.Contains(0) || r.writerEnded {
		return time.Time{}, false
	}
	if !now.Before(r.next) {
		r.next = now.Add(watchWriterInterval)
		r.WriterOutcome(now)
	}
	return r.next, !r.writerEnded
}

// IsClosedByWriter reports whether all writers have closed the pipe, so that a read
// returns end-of-file.
func (r *ReadEnd) IsClosedByWriter() bool {
	fds := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}} //nolint:gosec // descriptors are ints of C
	for {
		if _, err := unix.Poll(fds, 0); err != unix.EINTR {
			return fds[0].Revents&unix.POLLHUP != 0
		}
	}
}

// Unread returns how many bytes the pipe contains.
func (r *ReadEnd) Unread() int {
	n, _ := unix.IoctlGetInt(r.fd, unix.TIOCINQ) // fails for no pipe
	return n
}

// WriterOutcome reports whether the connected incarnation of the writer has ended. If
// it ended without success, failure says how. If it hasn't ended, lives is true if that
// is certain, and otherwise failure says why it isn't.
func (r *ReadEnd) WriterOutcome(now time.Time) (ended, lives bool, failure string) {
	if r.writerEnded {
		return true, false, r.writerFailure
	}
	s := r.observe(now)
	switch {
	case s.problem != "", s.liveness == absent, s.liveness == undetermined:
		return false, false, s.String()
	case s.incarnation != r.writerIncarnation:
		r.writerFailure = "it ended without reporting an exit code, and was started again"
	case s.state.phase.commandEnded() && s.state.exitCode == 0:
	case s.state.phase.commandEnded(), s.liveness == dead:
		r.writerFailure = s.String()
	default:
		return false, true, ""
	}
	r.writerEnded = true
	return true, false, r.writerFailure
}

// A WriteEnd is the writer's end: it becomes the stdout of the command.
type WriteEnd struct {
	own    *Incarnation
	reader Partner
	observer
	dir string // of the pipes
	fd  int    // -1 while the pipe isn't open
}

// NewWriteEnd returns the writer's end of a pipe. Other containers see the writer as
// own.
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
		case unix.ENOENT: // the reader hasn't created it yet
		case unix.ENXIO: // an incarnation of the reader that has just ended left it
		default:
			seen, problem = "its pipe can't be opened: "+err.Error(), true
		}
	}
	return state, w.reader.unmet(IsReading, state, seen, problem)
}

var errNotPipe = errors.New("not a pipe")

// open opens the pipe to an incarnation of the reader. It doesn't block and doesn't
// follow a symbolic link: the reader's container chose what is at the path.
func (w *WriteEnd) open(reader string) error {
	fd, err := unix.Open(w.dir+pipeName(w.own.state.incarnation, reader), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
	case unix.ELOOP, unix.EISDIR, unix.EROFS: // a symbolic link, a directory, a regular file
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

// IsConnected reports whether the pipe is open and the reader still has it open. If the
// reader is gone, IsConnected closes the pipe, so that tryConnect can open the next
// one.
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

// File returns the descriptor for the command's stdout.
func (w *WriteEnd) File() (fd uintptr, err error) { return blockingFD(w.fd) }

// Close closes the supervisor's copy of the descriptor. The reader gets end-of-file
// once the command has closed its copy as well.
func (w *WriteEnd) Close() {
	if w.fd >= 0 {
		_ = unix.Close(w.fd)
		w.fd = -1
	}
}
