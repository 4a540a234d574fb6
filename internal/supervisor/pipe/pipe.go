// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package pipe connects the command with other containers of its pod.
package pipe

import (
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/presence"
)

// Options select the containers that the command's stdin and stdout are connected to.
type Options struct {
	From, To order.Partner // without a directory for none
}

// Flags adds the flags that set o.
func (o *Options) Flags(f *cmdline.Flags) {
	f.Add("stdin-from", "DIRECTORY", `Connect the command's stdin to the stdout of the container with this
-order-dir. The command is started after that container's command. If that
container fails although the command succeeds, exit with 123.`, cmdline.Path(&o.From.Dir))
	f.Add("stdout-to", "DIRECTORY", `Connect the command's stdout to the stdin of the container with this
-order-dir. The command is started once that container waits for it.`, cmdline.Path(&o.To.Dir))
}

// IsPiped reports whether another container is at the command's stdin or stdout.
func (o *Options) IsPiped() bool { return o.From.Dir != "" || o.To.Dir != "" }

// Check rejects flags that can't work together with those of the order.
func (o *Options) Check(p *presence.Options) error {
	for _, f := range []struct{ name, dir string }{{"-stdin-from", o.From.Dir}, {"-stdout-to", o.To.Dir}} {
		switch given := f.name + "=" + f.dir; {
		case f.dir == "":
		case p.Dir == "":
			return cmdline.Failure(given, "the other container can't observe this one: use -order-dir as well")
		case p.Heartbeat:
			return cmdline.Failure(given, "not together with -order-heartbeat: containers with kernels of their own can't share a pipe")
		}
	}
	return nil
}

// Pipes are the pipe ends of the command, nil if it has none.
type Pipes struct {
	life     *life.Life
	opts     *Options
	presence *presence.Presence
	readEnd  *order.ReadEnd
	writeEnd *order.WriteEnd
	reading  bool // the command was started and may read
	drain    drain
}

// New returns the pipes that the options ask for. Ends opens them.
func New(l *life.Life, opts *Options, p *presence.Presence) *Pipes {
	pipes := &Pipes{life: l, opts: opts, presence: p}
	if opts.From.Dir != "" {
		l.Add(pipes)
	}
	return pipes
}

// IsPiped reports whether another container is at the command's stdin or stdout.
func (p *Pipes) IsPiped() bool { return p.opts.IsPiped() }

// Poll appends nothing: a pipe's reader is the command.
func (p *Pipes) Poll(fds []unix.PollFd) []unix.PollFd { return fds }

// Ends returns the pipe ends that awaitConditions connects.
func (p *Pipes) Ends() (ends []order.PipeEnd) {
	if p.opts.From.Dir != "" {
		if p.readEnd == nil {
			p.readEnd = order.NewReadEnd(p.presence.Incarnation(), p.opts.From)
		}
		ends = append(ends, p.readEnd)
	}
	if p.opts.To.Dir != "" {
		if p.writeEnd == nil {
			p.writeEnd = order.NewWriteEnd(p.presence.Incarnation(), p.opts.To)
		}
		ends = append(ends, p.writeEnd)
	}
	return ends
}

// LostReader reports whether the reader has ended since the wait for it.
func (p *Pipes) LostReader() bool { return p.writeEnd != nil && !p.writeEnd.IsConnected() }

// Files returns descriptors 0 to 2 for the command. Hooks and probes don't get
// the pipes.
func (p *Pipes) Files() (files []uintptr, err error) {
	files = p.life.Stdio(0)
	if p.readEnd != nil {
		files[0], err = p.readEnd.File()
	}
	if p.writeEnd != nil && err == nil {
		files[1], err = p.writeEnd.File()
	}
	if err != nil {
		err = outcome.Own("connecting the command with other containers: " + err.Error())
	}
	p.reading = p.readEnd != nil && err == nil
	return files, err
}

// CloseWriteEnd leaves the pipe to the command alone, so that the reader sees
// end-of-file when the command closes it.
func (p *Pipes) CloseWriteEnd() {
	if p.writeEnd != nil {
		p.writeEnd.Close()
	}
}

// Close closes both ends, which other containers notice.
func (p *Pipes) Close() {
	p.CloseWriteEnd()
	if p.readEnd != nil {
		p.readEnd.Close()
	}
}

// Act records the writer's outcome while the command runs, and returns the time until
// the next call.
func (p *Pipes) Act() time.Duration {
	if !p.reading {
		return life.Forever
	}
	now := time.Now()
	next, will := p.readEnd.WatchWriter(now)
	if !will {
		return life.Forever
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

// ReadsOn returns the time until the next call if the command may still read the output
// of its writer, which has ended, and 0 if not.
func (p *Pipes) ReadsOn() time.Duration {
	if !p.reading {
		return 0
	}
	d, now := &p.drain, time.Now()
	if unread := p.readEnd.Unread(); d.since.IsZero() || unread != d.unread {
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

// CheckWriter fails a command that succeeded with the output of a writer that failed,
// because that output may be incomplete.
//
// The supervisor keeps its descriptor of the pipe open until this check. So a writer
// that has already failed hasn't failed because of a closed pipe, and a writer that
// still has the pipe open may yet fail for that reason.
func (p *Pipes) CheckWriter() error {
	if p.readEnd == nil {
		return nil
	}
	closed := p.readEnd.IsClosedByWriter()
	p.reading = false
	if p.life.ExitCode != 0 {
		return nil
	}
	var how string
	deadline := time.Now()
	if closed {
		deadline = deadline.Add(writerEndTimeout)
	}
	err := p.life.Until(func() time.Duration {
		var ended, lives bool
		ended, lives, how = p.readEnd.WriterOutcome(time.Now())
		switch {
		case ended:
			return life.Done
		case time.Now().Before(deadline) && !p.life.StopCame():
			return writerEndInterval
		case lives || !closed: // the writer still works after its stdout, or doesn't write to a closed pipe
			how = ""
		}
		return life.Done
	})
	if err != nil || how == "" {
		return err
	}
	p.presence.PublishReason(p.readEnd.WriterName() + " " + strings.TrimPrefix(how, "it "))
	return outcome.New(outcome.CodeDependency, outcome.DependencyFailure, "reading the output of container "+strconv.Quote(p.readEnd.WriterName())+": "+how+
		": the output may be incomplete, so the command's success doesn't count: see the log of that container")
}
