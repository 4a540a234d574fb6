// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"strconv"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
)

// pipeOptions select the containers that the command's stdin and stdout are connected
// to.
type pipeOptions struct {
	stdinFrom, stdoutTo order.Partner // without a directory for none
}

var pipeFlags = []flag{
	{
		"stdin-from", "DIRECTORY", `Connect the command's stdin to the stdout of the container with this
-order-dir. The command is started after that container's command. If that
container fails although the command succeeds, exit with 123.`, setPath(func(o *options) *string { return &o.stdinFrom.Dir }),
	},
	{
		"stdout-to", "DIRECTORY", `Connect the command's stdout to the stdin of the container with this
-order-dir. The command is started once that container waits for it.`, setPath(func(o *options) *string { return &o.stdoutTo.Dir }),
	},
}

// isPiped reports whether another container is at the command's stdin or stdout.
func (o *pipeOptions) isPiped() bool { return o.stdinFrom.Dir != "" || o.stdoutTo.Dir != "" }

// checkPipes rejects combinations of flags that can't work together.
func (o *options) checkPipes() error {
	for _, f := range []struct{ name, dir string }{{"-stdin-from", o.stdinFrom.Dir}, {"-stdout-to", o.stdoutTo.Dir}} {
		switch given := f.name + "=" + f.dir; {
		case f.dir == "":
		case o.orderDir == "":
			return parseFailure(given, "the other container can't observe this one: use -order-dir as well")
		case o.heartbeat:
			return parseFailure(given, "not together with -order-heartbeat: containers with kernels of their own can't share a pipe")
		}
	}
	return nil
}

// pipes are the pipe ends of the command, nil if it has none.
type pipes struct {
	readEnd  *order.ReadEnd
	writeEnd *order.WriteEnd
	reading  bool // the command was started and may read
	drain    drain
}

// pipeEnds returns the pipe ends that awaitConditions connects.
func (s *supervision) pipeEnds() (ends []order.PipeEnd) {
	if s.opts.stdinFrom.Dir != "" {
		if s.readEnd == nil {
			s.readEnd = order.NewReadEnd(s.incarnation, s.opts.stdinFrom)
		}
		ends = append(ends, s.readEnd)
	}
	if s.opts.stdoutTo.Dir != "" {
		if s.writeEnd == nil {
			s.writeEnd = order.NewWriteEnd(s.incarnation, s.opts.stdoutTo)
		}
		ends = append(ends, s.writeEnd)
	}
	return ends
}

// lostReader reports whether the reader has ended since the wait for it.
func (s *supervision) lostReader() bool { return s.writeEnd != nil && !s.writeEnd.IsConnected() }

// commandFiles returns descriptors 0 to 2 for the command. Hooks and probes don't get
// the pipes.
func (s *supervision) commandFiles() (files []uintptr, err error) {
	files = s.stdio(0)
	if s.readEnd != nil {
		files[0], err = s.readEnd.File()
	}
	if s.writeEnd != nil && err == nil {
		files[1], err = s.writeEnd.File()
	}
	if err != nil {
		err = outcome.Own("connecting the command with other containers: " + err.Error())
	}
	s.reading = s.readEnd != nil && err == nil
	return files, err
}

// closeWriteEnd leaves the pipe to the command alone, so that the reader sees
// end-of-file when the command closes it.
func (s *supervision) closeWriteEnd() {
	if s.writeEnd != nil {
		s.writeEnd.Close()
	}
}

// closePipes closes both ends, which other containers notice.
func (s *supervision) closePipes() {
	s.closeWriteEnd()
	if s.readEnd != nil {
		s.readEnd.Close()
	}
}

// watchWriter records the writer's outcome while the command runs, and returns the time
// until the next call.
func (s *supervision) watchWriter() time.Duration {
	if !s.reading {
		return forever
	}
	now := time.Now()
	next, will := s.readEnd.WatchWriter(now)
	if !will {
		return forever
	}
	return max(next.Sub(now), 0)
}

// A drain observes how the command reads what its writer has left in the pipe.
type drain struct {
	unread int       // bytes, at the last look
	since  time.Time // when that number was new
}

const (
	// lastRead is how long a command must not have read before it counts as done with its
	// input. In this time, a command that has read to the end of file ends by itself.
	lastRead      = time.Second
	drainInterval = 50 * time.Millisecond
)

// readsOn returns the time until the next call if the command may still read the output
// of its writer, which has ended, and 0 if not.
func (s *supervision) readsOn() time.Duration {
	if !s.reading {
		return 0
	}
	d, now := &s.drain, time.Now()
	if unread := s.readEnd.Unread(); d.since.IsZero() || unread != d.unread {
		*d = drain{unread, now}
	}
	return max(min(lastRead-now.Sub(d.since), drainInterval), 0)
}

// After the writer has closed its output, it takes some time until its state says how
// it ended.
const (
	writerEndTimeout  = 5 * time.Second // even on a busy node
	writerEndInterval = 10 * time.Millisecond
)

// checkWriter fails a command that succeeded with the output of a writer that failed,
// because that output may be incomplete.
//
// The supervisor keeps its descriptor of the pipe open until this check. So a writer
// that has already failed hasn't failed because of a closed pipe, and a writer that
// still has the pipe open may yet fail for that reason.
func (s *supervision) checkWriter() error {
	if s.readEnd == nil {
		return nil
	}
	closed := s.readEnd.IsClosedByWriter()
	s.reading = false
	if s.exitCode != 0 {
		return nil
	}
	var how string
	deadline := time.Now()
	if closed {
		deadline = deadline.Add(writerEndTimeout)
	}
	err := s.until(func() time.Duration {
		var ended, lives bool
		ended, lives, how = s.readEnd.WriterOutcome(time.Now())
		switch {
		case ended:
			return done
		case time.Now().Before(deadline) && !s.stopCame():
			return writerEndInterval
		case lives || !closed: // the writer still works after its stdout, or doesn't write to a closed pipe
			how = ""
		}
		return done
	})
	if err != nil || how == "" {
		return err
	}
	s.incarnation.PublishReason(s.readEnd.WriterName() + " " + strings.TrimPrefix(how, "it "))
	return outcome.New(outcome.CodeDependency, outcome.DependencyFailure, "reading the output of container " + strconv.Quote(s.readEnd.WriterName()) + ": " + how +
		": the output may be incomplete, so the command's success doesn't count: see the log of that container")
}
