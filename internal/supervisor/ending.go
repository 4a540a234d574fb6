// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
)

// An ending is how the supervisor ends a process: by a stop signal, and by SIGKILL after
// a grace period. The command can be ended for several reasons: by its timeout
// (limit.go), by stop-when (stopwhen.go), and by its startupProbe (startupprobe.go). The
// first verdict wins.
//
// A stop of the container (stop.go) is no verdict, because the kubelet sends SIGKILL
// then. A process that was sent a stop signal gets none by a verdict: many programs abort
// their orderly shutdown at a second signal. A stop that follows a verdict is forwarded.
type ending struct {
	process *process // the leader of a process group
	verdict verdict
	signal  syscall.Signal // the last stop signal that the process was sent, 0 for none
	killAt  time.Time      // when SIGKILL is due, zero for never
	killErr error          // why the process can't be killed
}

// A verdict is why the supervisor ends a process.
type verdict int

const (
	noVerdict verdict = iota // the process ends by itself, or is stopped from outside
	tooSlow
	unneeded
	notStarted // its startupProbe has failed
)

// decide makes v the verdict, and reports whether it is the first one. The caller then
// sends a stop signal. The grace period begins now.
func (e *ending) decide(v verdict, grace time.Duration) bool {
	if e.verdict != noVerdict || e.process.ended {
		return false
	}
	e.verdict, e.killAt = v, time.Now().Add(grace)
	return true
}

// stop sends a stop signal, unless the process was sent one before.
func (e *ending) stop(sig syscall.Signal) {
	if e.process.ended {
		return
	}
	if e.signal == 0 {
		e.signal = sig
		_ = syscall.Kill(e.process.pid, sig)
	}
	_ = syscall.Kill(e.process.pid, syscall.SIGCONT) // a stopped process would handle no signal but SIGKILL
}

// kill sends SIGKILL if it is due, and returns the time until then.
func (e *ending) kill() time.Duration {
	if e.process.ended || e.killAt.IsZero() {
		return forever
	}
	if left := time.Until(e.killAt); left > 0 {
		return left
	}
	e.killAt = time.Time{}
	_ = syscall.Kill(-e.process.pid, syscall.SIGKILL)
	e.killErr = syscall.Kill(e.process.pid, syscall.SIGKILL) // the process may have joined another group
	return forever
}

// over reports whether nothing more can be done: the process has ended, or can't be
// killed.
func (e *ending) over() bool { return e.process.ended || e.killErr != nil }

// endCommand ends the command, and reports whether v is the first verdict. If a stop
// signal is held back, the command gets that one instead of sig.
func (s *supervision) endCommand(v verdict, sig syscall.Signal, grace time.Duration, why string) bool {
	if !s.ending.decide(v, grace) {
		return false
	}
	s.takeStopSignals()
	s.noteForwardedStop() // the handler may have sent one since the loop looked
	if s.heldStop.count > 0 {
		s.releaseStop(why)
	}
	s.ending.stop(sig)
	return true
}

// noteForwardedStop notes that a signal handler has sent the command a stop signal.
func (s *supervision) noteForwardedStop() {
	for _, sig := range []syscall.Signal{s.opts.stoppedWith(), syscall.SIGTERM} {
		if s.ending.signal == 0 && sig != signals.Held() && signals.Came(sig) {
			s.ending.signal = sig
		}
	}
}

// awaitEnd waits until the command has ended, or can't be killed.
func (s *supervision) awaitEnd(command *process) error {
	s.ending = ending{process: command}
	limit := newLimit(s.opts.timeout)
	err := s.until(func() time.Duration {
		s.noteForwardedStop()
		s.endUnneeded()
		s.endAfterStartupFailure()
		pause := min(s.endAfter(limit), s.ending.kill())
		if s.ending.over() {
			return done
		}
		return min(pause, s.holdStop())
	})
	signals.StopForwarding(command.pid) // also if the command can't be killed
	s.stopProbing()
	s.stopStartupProbe()
	s.endHeldStop()
	return err
}

// recordEnding records how the command has ended, and why. It returns why the container
// doesn't exit as the command did, nil if it does.
func (s *supervision) recordEnding() error {
	e := &s.ending
	if e.process.ended {
		s.recordEnd(e.process.status)
	}
	switch {
	case e.verdict == unneeded:
		if !e.process.ended {
			s.message = s.whyUnneeded() + ": the command" + e.whyAlive()
			console.Say(s.message)
		}
		s.exitCode, s.reason = 0, outcome.Unneeded
		return nil
	case e.verdict == notStarted && !e.process.ended:
		return outcome.Own("the startupProbe has failed, and the command" + e.whyAlive())
	case e.verdict == tooSlow && !e.process.ended:
		return s.timeoutFailure("it" + e.whyAlive())
	case e.verdict == tooSlow:
		return s.timeoutFailure("sent " + signals.Name(e.signal) + ", it " + outcome.Describe(e.process.status) + ": make it faster, or raise timeout")
	}
	return s.checkWriter()
}

// whyAlive continues a sentence about a process that can't be killed.
func (e *ending) whyAlive() string {
	return " can't be killed: " + e.killErr.Error() + ": " + otherUser
}
