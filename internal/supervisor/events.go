// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"sync/atomic"
	"syscall"
)

// An Event is something that happened to the container. Behind each is what its text
// is, and its number. Neither arguments nor variables are there: they may be secret.
type Event int

// The events.
const (
	EventDependsOn   Event = iota // waits for another container: its name and a condition
	EventWaiting                  // for a file: its path
	EventWaited                   // no more: an await.State
	EventHookStarted              // its argv[0], and its process ID
	EventHookEnded                // its syscall.WaitStatus
	EventPaused                   // where
	EventContinued
	EventStarted    // the command: its argv[0], and its process ID
	EventSignal     // has come: its number
	EventTimeout    // the command is sent SIGTERM
	EventStopHeld   // back for another container: its name and a condition
	EventStopPassed // to the command: why
	EventStopWhen   // is met, or never will be: an await.State
	EventExited     // the command: its syscall.WaitStatus
	EventOOMKilled  // how many processes
	EventFinished   // why, and the container's exit code; it is the last one
)

// event tells the output, if there is one.
//
//go:noinline
func (s *supervision) event(e Event, text string, number int) {
	if s.output != nil {
		s.output.Event(e, text, number)
	}
}

// tellSignals tells of the signals that have come since the last time, of each kind
// once. The command has them already, if it runs.
func (s *supervision) recordSignals() {
	if s.output == nil {
		return
	}
	for n := range unrecorded {
		if atomic.SwapUint32(&unrecorded[n], 0) > 0 {
			recorded[n] = true
			s.event(EventSignal, "", n)
		}
	}
}

// SignalName is such as SIGTERM.
func SignalName(sig syscall.Signal) string { return signalName(sig) }
