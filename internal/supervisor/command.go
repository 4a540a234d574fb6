// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/brake"
	"github.com/entrypointer/entrypointer/internal/supervisor/ending"
	"github.com/entrypointer/entrypointer/internal/supervisor/helper"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/output"
	"github.com/entrypointer/entrypointer/internal/supervisor/pause"
	"github.com/entrypointer/entrypointer/internal/supervisor/report"
	"github.com/entrypointer/entrypointer/internal/supervisor/terminal"
)

// supervise runs argv as a child and waits for its end.
func (s *supervision) supervise(argv, env []string) error {
	if !s.helper.IsNeeded() {
		return helper.ErrUnneeded
	}
	command, err := s.startCommand(argv, env)
	if err != nil {
		return err
	}
	if err := s.awaitEnd(command); err != nil {
		return err
	}
	if s.life.Term.IsOurs() && s.opts.pause.Has(pause.AfterFailure) {
		s.life.Term.SetForeground(unix.Getpgrp()) // so that Ctrl-C ends the pause
	}
	return s.recordEnding()
}

// startCommand starts the command, or continues the early command.
func (s *supervision) startCommand(argv, env []string) (*life.Process, error) {
	l := s.life
	l.Term = terminal.Foreground()
	if l.Reports {
		// The status is published before the start, so that the command can read it.
		l.Started = time.Now()
		s.startup.Expect()
		l.SetPhase(report.Running)
	}
	command := s.turn.Early.Process
	if command == nil {
		l.CountKillsFromNow()
		s.presence.Starts()
		files, err := s.pipes.Files()
		if err == nil {
			command, err = l.Start(argv, env, files, life.CommandAttr(l.Term))
		}
		s.pipes.CloseWriteEnd()
		if err != nil {
			l.Started = time.Time{}
			return nil, err
		}
	}
	if command.Ended {
		return command, nil // it has ended before, and its ID may be reused
	}
	l.Event(output.EventStarted, argv[0], command.PID)
	signals.Forward(command.PID)
	if s.turn.Early.Process != nil {
		s.turn.ContinueEarly()
	}
	s.presence.Publish(order.Started, 0)
	s.presence.StartProbing(env)
	s.startup.Starts(env)
	s.brake.Starts(env)
	return command, nil
}

// awaitEnd waits until the command has ended, or can't be killed.
func (s *supervision) awaitEnd(command *life.Process) error {
	s.ending.Process = command
	limit := ending.NewLimit(s.opts.ending.Timeout)
	err := s.life.Until(func() time.Duration {
		s.brake.NoteForwarded()
		s.helper.EndUnneeded()
		s.startup.EndAfterFailure()
		pause := min(s.endAfter(limit), s.ending.Kill())
		if s.ending.Over() {
			return life.Done
		}
		return min(pause, s.brake.Hold())
	})
	signals.StopForwarding(command.PID) // also if the command can't be killed
	s.presence.StopProbing()
	s.startup.Stop()
	s.brake.Close()
	return err
}

// endAfter ends the command when it takes too long, and returns the time until then.
func (s *supervision) endAfter(l ending.Limit) time.Duration {
	is, pause := l.Reached()
	if is && s.brake.End(ending.TooSlow, syscall.SIGTERM, s.opts.ending.Grace, brake.ReleaseTooSlow) {
		s.life.Event(output.EventTimeout, "", 0)
	}
	return pause
}

// recordEnding records how the command has ended, and why. It returns why the container
// doesn't exit as the command did, nil if it does.
func (s *supervision) recordEnding() error {
	e, l := s.ending, s.life
	if e.Process.Ended {
		l.RecordEnd(e.Process.Status)
		if s.opts.successes.Contains(l.Command) {
			l.ExitCode = 0
		}
	}
	switch {
	case e.Verdict == ending.Unneeded:
		if !e.Process.Ended {
			l.Tell(s.helper.Why() + ": the command" + e.WhyAlive())
		}
		l.ExitCode, l.Reason = 0, outcome.Unneeded
		return nil
	case e.Verdict == ending.NotStarted && !e.Process.Ended:
		return outcome.Own("the startupProbe has failed, and the command" + e.WhyAlive())
	case e.Verdict == ending.TooSlow && !e.Process.Ended:
		return s.timeoutFailure("it" + e.WhyAlive())
	case e.Verdict == ending.TooSlow:
		return s.timeoutFailure("sent " + signals.Name(e.Signal) + ", it " + outcome.Describe(e.Process.Status) + ": make it faster, or raise timeout")
	}
	return s.pipes.CheckWriter()
}

func (s *supervision) timeoutFailure(end string) error {
	return outcome.New(outcome.CodeTimeout, outcome.Timeout, "the command timed out after "+s.opts.ending.Timeout.String()+" (entrypointer.dev/timeout); "+end)
}
