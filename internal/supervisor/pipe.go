// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"strconv"
	"time"

	"github.com/entrypointer/entrypointer/internal/order"
)

// pipeOptions say whose stdout the command reads, and who reads its own.
type pipeOptions struct {
	stdinFrom, stdoutTo           string // the -order-dir of that container, "" for none
	stdinFromFinal, stdoutToFinal order.Ends
}

var pipeFlags = []flag{
	{
		"stdin-from", "DIRECTORY", `Have the command read what the container prints that has this -order-dir.
It is started once the other one is. If that fails, and the command ends
with a success, exit with 123.`, setPath(func(o *options) *string { return &o.stdinFrom }),
	},
	{
		"stdin-from-final", "completed|failed|exited", `After which end that container isn't started again. If it is waited for,
exit with 123.`, setEnds(func(o *options) *order.Ends { return &o.stdinFromFinal }),
	},
	{
		"stdout-to", "DIRECTORY", `Have the container that has this -order-dir read what the command prints.
The command is started once that container waits for it.`, setPath(func(o *options) *string { return &o.stdoutTo }),
	},
	{
		"stdout-to-final", "completed|failed|exited", `After which end that container isn't started again. If it is waited for,
exit with 123.`, setEnds(func(o *options) *order.Ends { return &o.stdoutToFinal }),
	},
}

func setEnds(field func(*options) *order.Ends) func(*options, string) string {
	return func(o *options, value string) string {
		ends, ok := order.ParseEnds(value)
		if !ok {
			return "no end: use completed, failed or exited"
		}
		*field(o) = ends
		return ""
	}
}

// isPiped reports whether another container is at the command's stdin or stdout.
func (o *pipeOptions) isPiped() bool { return o.stdinFrom != "" || o.stdoutTo != "" }

// checkPipes finds flags that contradict each other.
func (o *options) checkPipes() error {
	for _, f := range []struct {
		name, dir string
		final     order.Ends
	}{{"-stdin-from", o.stdinFrom, o.stdinFromFinal}, {"-stdout-to", o.stdoutTo, o.stdoutToFinal}} {
		switch given := f.name + "=" + f.dir; {
		case f.dir == "" && f.final != order.Ends{}:
			return parseFailure(f.name+"-final", "it belongs to no container: use "+f.name+" as well")
		case f.dir == "":
		case o.orderDir == "":
			return parseFailure(given, "the other container is told nothing: use -order-dir as well")
		case o.heartbeat:
			return parseFailure(given, "not together with -order-heartbeat: no pipe leads from one kernel to another")
		}
	}
	return nil
}

// pipes are the ends that the command has, nil for none.
type pipes struct {
	input   *order.ReadEnd
	out     *order.WriteEnd
	reading bool // the command has been started, and reads
}

// pipeEnds are what the wait for other containers connects.
func (s *supervision) pipeEnds() (ends []order.End) {
	if s.opts.stdinFrom != "" {
		if s.input == nil {
			s.input = order.NewReadEnd(s.self, order.Partner{Dir: s.opts.stdinFrom, Final: s.opts.stdinFromFinal})
		}
		ends = append(ends, s.input)
	}
	if s.opts.stdoutTo != "" {
		if s.out == nil {
			s.out = order.NewWriteEnd(s.self, order.Partner{Dir: s.opts.stdoutTo, Final: s.opts.stdoutToFinal})
		}
		ends = append(ends, s.out)
	}
	return ends
}

// hasLostReader reports whether the container that shall read has died since the wait for
// it, as may happen while hooks run.
func (s *supervision) hasLostReader() bool { return s.out != nil && !s.out.IsConnected() }

// commandFiles are the first descriptors of the command. Hooks and probes have none of
// the pipes.
func (s *supervision) commandFiles() (files []uintptr, err error) {
	files = s.stdio(0)
	if s.input != nil {
		files[0], err = s.input.File()
	}
	if s.out != nil && err == nil {
		files[1], err = s.out.File()
	}
	if err != nil {
		err = ownFailure("connecting the command with other containers: " + err.Error())
	}
	s.reading = s.input != nil && err == nil
	return files, err
}

// leaveOutput leaves the pipe to the command, by whose end it ends.
func (s *supervision) leaveOutput() {
	if s.out != nil {
		s.out.Close()
	}
}

// closePipes has other containers notice that this one reads and writes no more.
func (s *supervision) closePipes() {
	s.leaveOutput()
	if s.input != nil {
		s.input.Close()
	}
}

// watchWriter does what is due for the verdict on the input, and returns the time until
// there is more to do.
func (s *supervision) watchWriter() time.Duration {
	if !s.reading {
		return forever
	}
	now := time.Now()
	next, will := s.input.Watch(now)
	if !will {
		return forever
	}
	return max(next.Sub(now), 0)
}

// The times for a container whose command has closed its output to say how it ended.
const (
	lastWordTakes = 5 * time.Second // at most, on a busy node
	lastWordEvery = 10 * time.Millisecond
)

// checkInput fails a command that has succeeded with what a container printed that has
// failed: half an input isn't taken for a whole one.
//
// Until then, this end of the pipe stays open here as well. So a writer that has failed by
// now hasn't done so because nobody reads, and a pipe that isn't closed has a writer that
// may still fail for that.
func (s *supervision) checkInput() error {
	if s.input == nil {
		return nil
	}
	closed := s.input.IsClosed()
	s.reading = false
	if s.exitCode != 0 {
		return nil
	}
	var how string
	deadline := time.Now()
	if closed {
		deadline = deadline.Add(lastWordTakes)
	}
	err := s.until(func() time.Duration {
		var ended, lives bool
		ended, lives, how = s.input.Outcome(time.Now())
		switch {
		case ended:
			return done
		case time.Now().Before(deadline) && !s.isToEnd():
			return lastWordEvery
		case lives || !closed: // it has more to do, with its stdout closed or not
			how = ""
		}
		return done
	})
	if err != nil || how == "" {
		return err
	}
	return &failure{exitDependency, reasonDependencyFailure, "reading the output of container " + strconv.Quote(s.input.Writer()) + ": " + how +
		": that may be half of it, so that the command's success doesn't count: see the log of that container"}
}
