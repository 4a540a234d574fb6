// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/ending"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/output"
	"github.com/entrypointer/entrypointer/internal/supervisor/pause"
	"github.com/entrypointer/entrypointer/internal/supervisor/report"
	"github.com/entrypointer/entrypointer/internal/supervisor/stopwhen"
	"github.com/entrypointer/entrypointer/internal/supervisor/terminal"
)

// supervise runs argv as a child and waits for its end.
func (s *supervision) supervise(argv, env []string) error {
	if !s.stopWhen.IsNeeded() {
		return stopwhen.ErrUnneeded
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
	command := s.handoff.Early.Process
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
	if s.handoff.Early.Process != nil {
		s.handoff.ContinueEarly()
	}
	s.presence.Publish(order.Started, 0)
	s.presence.StartProbing(env)
	s.startup.Starts(env)
	s.stopOrder.Starts(env)
	return command, nil
}

// awaitEnd waits until the command has ended, or can't be killed.
func (s *supervision) awaitEnd(command *life.Process) error {
	s.ending.Process = command
	s.timeout.Starts()
	err := s.life.Until(func() time.Duration {
		s.stopOrder.NoteForwarded()
		s.stopWhen.EndUnneeded()
		s.startup.EndAfterFailure()
		pause := min(s.timeout.EndTooSlow(), s.ending.Kill())
		if s.ending.Over() {
			return life.Done
		}
		return min(pause, s.stopOrder.Hold())
	})
	signals.StopForwarding(command.PID) // also if the command can't be killed
	s.presence.StopProbing()
	s.startup.Stop()
	s.stopOrder.Close()
	return err
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
			l.Tell(s.stopWhen.Why() + ": the command" + e.WhyAlive())
		}
		l.ExitCode, l.Reason = 0, outcome.Unneeded
		return nil
	case e.Verdict == ending.NotStarted && !e.Process.Ended:
		return outcome.Own("the startupProbe has failed, and the command" + e.WhyAlive())
	case e.Verdict == ending.TooSlow:
		return s.timeout.Failure()
	}
	return s.pipes.CheckWriter()
}
