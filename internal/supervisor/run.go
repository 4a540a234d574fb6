// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"os"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/launch"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/pause"
	"github.com/entrypointer/entrypointer/internal/supervisor/report"
	"github.com/entrypointer/entrypointer/internal/supervisor/stopwhen"
)

// failBeforeStart prints an error of an incarnation that can't have a command. It also
// publishes the incarnation's end: containers that depend on this one would otherwise
// wait for it to begin.
func (s *supervision) failBeforeStart(err error) (code int) {
	s.presence.Announce()
	s.life.ExitCode = outcome.As(err).Code
	s.presence.Publish(order.Ended, s.life.ExitCode)
	console.Fail(err)
	s.sidecars.End()
	s.presence.CompleteLastWord()
	return s.life.ExitCode
}

// run runs the command, and returns the exit code.
func (s *supervision) run(argv []string) int {
	l := s.life
	s.beginTrace()
	l.OpenOutput()
	s.presence.Announce()
	s.opts.tekton.Start()
	argv, env, err := s.prepare(argv)
	switch {
	case err != nil:
	case s.opts.mode == modeExec:
		err = s.replace(argv, env)
	default:
		err = s.supervise(argv, env)
	}
	if err = s.stopWhen.Excuse(err); err != nil {
		f := outcome.As(err)
		console.Say(f.Text)
		l.ExitCode, l.Reason, l.Message = f.Code, f.Reason, f.Text
	}
	s.pipes.Close()
	if len(s.opts.sidecars.Targets) == 0 {
		s.presence.Publish(order.Ended, l.ExitCode)
	} else {
		s.presence.Publish(order.Finishing, l.ExitCode) // the end of the sidecars publishes Ended
	}
	s.opts.tekton.Leave(&l.Status)
	s.reportEnd()
	s.sidecars.End()
	s.presence.CompleteLastWord()
	return l.ExitCode
}

// beginTrace begins the span of this run. The Output and the edits of the environment have
// to know it before they are used.
func (s *supervision) beginTrace() {
	span := s.opts.trace.Begin(&s.opts.env, launch.Environ)
	s.opts.trace.Edit(&s.opts.env, span)
	if span != nil && s.life.Output != nil {
		s.life.Output.SetTrace(span.String(), span.Above())
	}
}

// prepare does everything before the command's start, and returns the command's argv and
// environment.
func (s *supervision) prepare(argv []string) (_, env []string, err error) {
	env, err = s.opts.env.ExceptFiles().Apply(launch.Environ())
	if err != nil {
		return nil, nil, err
	}
	if s.opts.inOrder() { // so that a signal ends the wait, and dependents learn of it
		s.takeOverSignals()
	}
	if !s.stopWhen.IsNeeded() {
		return nil, nil, stopwhen.ErrUnneeded
	}
	if err := s.startOrder.Await(); err != nil {
		return nil, nil, err
	}
	argv, env, err = s.handoff.Take(argv, env, func() {
		if !s.opts.inOrder() {
			s.takeOverSignals()
		}
	})
	// What was met may have changed meanwhile, and a reader even since the last look.
	for again := s.tookTime(); err == nil && (again || s.pipes.LostReader()); again = false {
		err = s.startOrder.Await()
	}
	return argv, env, err
}

// tookTime reports whether something between the wait for other containers and the
// command's start takes time.
func (s *supervision) tookTime() bool {
	return len(s.opts.hooks.Argvs) > 0 || s.opts.pause.Has(pause.BeforeStart) || len(s.opts.handoff.Wait.All) > 0
}

// takeOverSignals forwards signals to the command from here on, and makes the
// supervisor inherit orphans. Until then, a signal has the same effect as on Tekton's
// entrypoint, which is a Go program, too, and handles no signals while it waits.
func (s *supervision) takeOverSignals() {
	if s.opts.mode == modeSupervise || s.opts.hooks.Argvs != nil || s.opts.pause.Places != nil || s.opts.inOrder() {
		s.stopOrder.Catch()
		signals.Catch()
	}
	if s.opts.mode == modeSupervise && os.Getpid() != 1 {
		// PID 1 inherits orphans anyway. In mode exec, the command would inherit them
		// and doesn't expect them.
		life.BecomeSubreaper()
	}
}

// replace executes the command in place of this process. It returns only if that fails.
func (s *supervision) replace(argv, env []string) error {
	return launch.InPath(argv[0], env, func(path string) error {
		if s.life.PendingEndSignal() == 0 {
			s.presence.BequeathLock()
		}
		signals.Release()
		// Signals that have arrived are the command's, but an ending signal means that
		// the command isn't started.
		if sig := s.life.PendingEndSignal(); sig != 0 {
			return outcome.StoppedBy(sig, "its start")
		}
		signals.SendArrived(os.Getpid())
		return syscall.Exec(path, argv, env)
	})
}

// reportEnd publishes the final status.
func (s *supervision) reportEnd() {
	l := s.life
	if !l.Reports {
		return
	}
	l.Finished = time.Now()
	if l.ExitCode != 0 && !s.handoff.Aborted && !s.wasEndRequested() {
		s.pause.At(pause.AfterFailure)
	}
	l.Deliver()
	l.SetPhase(report.Finished)
	l.CloseOutput()
	report.LeaveTerminationMessage(s.opts.report.TerminationMessage, l.JSON())
}

// wasEndRequested reports whether the end was requested, so that a pause would only
// delay it. SIGTERM and SIGINT always request an end. SIGHUP and SIGQUIT may ask for a
// new configuration or a stack trace, so they count only if the command has ended by
// them.
func (s *supervision) wasEndRequested() bool {
	return s.life.Reason == outcome.Stopped || s.opts.handoff.Wait.Aborts() || s.life.StopCame() || signals.Came(syscall.SIGINT) || s.life.EndedByEndSignal()
}
