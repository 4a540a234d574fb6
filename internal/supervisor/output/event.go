// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package output

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
