// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"syscall"

	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
)

// An Event is something that happened to the container. The comment of each value says
// what its text and its number are. Events contain neither arguments nor variables,
// which may be secret.
type Event int

// The events.
const (
	EventDependsOn   Event = iota // starts to wait for another container: its name and a condition
	EventWaiting                  // starts to wait for a file: its path
	EventWaited                   // the wait is over: an await.State
	EventHookStarted              // argv[0], and the process ID
	EventHookEnded                // a syscall.WaitStatus
	EventPaused                   // the place, before-start or after-failure
	EventContinued
	EventStarted    // the command was started: argv[0], and the process ID
	EventSignal     // a signal has arrived: its number
	EventTimeout    // the command has timed out, and is sent SIGTERM unless it was sent a stop signal before
	EventStopHeld   // the stop signal is held back for another container: its name and a condition
	EventStopPassed // the stop signal is forwarded to the command: why
	EventStopWhen   // stop-when is met, or can't be met any more: an await.State
	EventExited     // the command has ended: a syscall.WaitStatus
	EventOOMKilled  // number of killed processes
	EventFinished   // the reason and the container's exit code; the last event
)

// event passes an event to the Output, if there is one.
//
//go:noinline
func (s *supervision) event(e Event, text string, number int) {
	if s.output != nil {
		s.output.Event(e, text, number)
	}
}

// recordSignals passes the signals that have arrived since the last call to the Output,
// one event per signal number. A running command has already got them.
func (s *supervision) recordSignals() {
	if s.output == nil {
		return
	}
	for sig := range signals.Arrivals() {
		s.noteStop(sig)
		s.event(EventSignal, "", int(sig))
	}
}

// reportRefused prints which signals the kernel did not let the supervisor send to the
// command, once for each signal. The command may have changed its user (setuid(2)) to
// one that the supervisor may not signal (kill(2)). Without a supervisor, it would have
// received signals from outside the container as PID 1.
func (s *supervision) reportRefused() {
	for sig, err := range signals.Refusals() {
		if s.refusalReported[sig] {
			continue
		}
		s.refusalReported[sig] = true
		s.message = "forwarding " + signals.Name(sig) + " to the command: " + err.Error()
		if err == syscall.EPERM {
			s.message += ": " + otherUser
		}
		console.Say(s.message)
		s.setPhase(s.phase)
	}
}

// otherUser explains why the kernel doesn't let the supervisor signal its child, and
// what to do.
const otherUser = "it runs as another user than the container's: run the container as that user, or set mode: exec"
