// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package output is what the supervisor and the code that captures the command's output
// know of each other.
package output

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
)

// An Output receives the command's stdout and stderr, if they don't go to the
// container's own. It works in the supervisor's one loop, and starts a process for slow
// work.
type Output interface {
	// Flags are the flags that configure the Output.
	Flags() []cmdline.Flag
	// Enabled reports whether the flags ask for the Output.
	Enabled() bool
	// Open creates the descriptors that replace 1 and 2. After an error, the command
	// uses the container's own.
	Open(start Starter) error
	// Files returns the command's stdout and stderr.
	Files() (stdout, stderr uintptr)
	// Poll appends the descriptors on whose events the caller calls Take.
	Poll(fds []unix.PollFd) []unix.PollFd
	// Advance works without blocking, and returns the time after which to call it again if
	// no event arrives.
	Advance() (pause time.Duration)
	// WriteLine prints a line of the supervisor, in place of stderr.
	WriteLine(line []byte)
	// SetTrace is called before Open, if the command gets a span: traceparent names it, and
	// parent is the span above, "" if there is none.
	SetTrace(traceparent, parent string)
	// Event records an event.
	Event(e Event, text string, number int)
	// End is called when the command has ended. Later output isn't taken.
	End()
	// Flushed reports whether all output has reached its destination.
	Flushed() bool
	// FlushTimeouts returns how long to wait for Flushed after the end, and the pod's
	// grace period, 0 if that isn't known.
	FlushTimeouts() (afterEnd, grace time.Duration)
	// Close is called last. It returns what wasn't delivered and why, or "".
	Close() string
	// StatusChanged reports whether Status has changed since its last call.
	StatusChanged() bool
	// Status returns a JSON object.
	Status() string
}

// A Starter starts a program in addition to the command, with files as its descriptors
// from 0 on. The returned function reports whether the program has ended, and its exit
// code.
type Starter func(path string, argv, env []string, files []uintptr) (ended func() (bool, int), err error)

// Forever is the pause when only a descriptor or a signal can wake the loop.
const Forever = signals.Forever
