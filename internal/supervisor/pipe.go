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
	stdinFromFinal, stdoutToFinal order.FinalOutcomes
}

var pipeFlags = []flag{
	{
		"stdin-from", "DIRECTORY", `Have the command read what the container prints that has this -order-dir.
It is started once the other one is. If that fails, and the command ends
with a success, exit with 123.`, setPath(func(o *options) *string { return &o.stdinFrom }),
	},
	{
		"stdin-from-final", "completed|failed|exited", `After which end that container isn't started again. If it is waited for,
exit with 123.`, setFinalOutcomes(func(o *options) *order.FinalOutcomes { return &o.stdinFromFinal }),
	},
	{
		"stdout-to", "DIRECTORY", `Have the container that has this -order-dir read what the command prints.
The command is started once that container waits for it.`, setPath(func(o *options) *string { return &o.stdoutTo }),
	},
	{
		"stdout-to-final", "completed|failed|exited", `After which end that container isn't started again. If it is waited for,
exit with 123.`, setFinalOutcomes(func(o *options) *order.FinalOutcomes { return &o.stdoutToFinal }),
	},
}

func setFinalOutcomes(field func(*options) *order.FinalOutcomes) func(*options, string) string {
	return func(o *options, value string) string {
		ends, ok := order.ParseFinalOutcomes(value)
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
		final     order.FinalOutcomes
	}{{"-stdin-from", o.stdinFrom, o.stdinFromFinal}, {"-stdout-to", o.stdoutTo, o.stdoutToFinal}} {
		switch given := f.name + "=" + f.dir; {
		case f.dir == "" && f.final != order.FinalOutcomes{}:
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
	readEnd  *order.ReadEnd
	writeEnd *order.WriteEnd
	reading  bool // the command has been started, and reads
}

// pipeEnds are what the wait for other containers connects.
func (s *supervision) pipeEnds() (ends []order.PipeEnd) {
	if s.opts.stdinFrom != "" {
		if s.readEnd == nil {
			s.readEnd = order.NewReadEnd(s.incarnation, order.Partner{Dir: s.opts.stdinFrom, Final: s.opts.stdinFromFinal})
		}
		ends = append(ends, s.readEnd)
	}
	if s.opts.stdoutTo != "" {
		if s.writeEnd == nil {
			s.writeEnd = order.NewWriteEnd(s.incarnation, order.Partner{Dir: s.opts.stdoutTo, Final: s.opts.stdoutToFinal})
		}
		ends = append(ends, s.writeEnd)
	}
	return ends
}

// hasLostReader reports whether the container that shall read has died since the wait for
// it, as may happen while hooks run.
func (s *supervision) lostReader() bool { return s.writeEnd != nil && !s.writeEnd.IsConnected() }

// commandFiles are the first descriptors of the command. Hooks and probes have none of
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
		err = ownFailure("connecting the command with other containers: " + err.Error())
	}
	s.reading = s.readEnd != nil && err == nil
	return files, err
}

// leaveOutput leaves the pipe to the command, by whose end it ends.
func (s *supervision) closeWriteEnd() {
	if s.writeEnd != nil {
		s.writeEnd.Close()
	}
}

// closePipes has other containers notice that this one reads and writes no more.
func (s *supervision) closePipes() {
	s.closeWriteEnd()
	if s.readEnd != nil {
		s.readEnd.Close()
	}
}

// watchWriter does what is due for the verdict on the input, and returns the time until
// there is more to do.
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

// The times for a container whose command has closed its output to say how it ended.
const (
	writerEndTimeout  = 5 * time.Second // at most, on a busy node
	writerEndInterval = 10 * time.Millisecond
)

// checkInput fails a command that has succeeded with what a container printed that has
// failed: half an input isn't taken for a whole one.
//
// Until then, this end of the pipe stays open here as well. So a writer that has failed by
// now hasn't done so because nobody reads, and a pipe that isn't closed has a writer that
// may still fail for that.
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
		case time.Now().Before(deadline) && !s.endSignalCame():
			return writerEndInterval
		case lives || !closed: // it has more to do, with its stdout closed or not
			how = ""
		}
		return done
	})
	if err != nil || how == "" {
		return err
	}
	return &failure{exitDependency, reasonDependencyFailure, "reading the output of container " + strconv.Quote(s.readEnd.WriterName()) + ": " + how +
		": that may be half of it, so that the command's success doesn't count: see the log of that container"}
}
