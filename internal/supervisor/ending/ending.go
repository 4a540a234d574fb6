// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package ending ends a process, by a signal and then by SIGKILL, and knows why.
package ending

import (
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
)

// Options are the time between the stop signal and SIGKILL.
type Options struct{ Grace time.Duration }

// DefaultGrace is the default grace period of Kubernetes.
const DefaultGrace = 30 * time.Second

// Flags adds the flag that sets o.
func (o *Options) Flags(f *cmdline.Flags) {
	f.Add("grace-period", "DURATION", `The time between the stop signal and SIGKILL, after -timeout,
-before-start-timeout and -stop-when, 30s by default.`, cmdline.Duration(&o.Grace))
}

// An Ending is how the supervisor ends a process: by a stop signal, and by SIGKILL after
// a grace period. The command can be ended for several reasons: by its timeout
// (package timeout), by stop-when (package stopwhen), and by its startupProbe (package
// startup). The first verdict wins.
//
// A stop of the container (package stoporder) is no verdict, because the kubelet sends SIGKILL
// then. A process that was sent a stop signal gets none by a verdict: many programs abort
// their orderly shutdown at a second signal. A stop that follows a verdict is forwarded.
type Ending struct {
	Process *life.Process // the leader of a process group
	Verdict Verdict
	Signal  syscall.Signal // the last stop signal that the process was sent, 0 for none
	killAt  time.Time      // when SIGKILL is due, zero for never
	KillErr error          // why the process can't be killed
}

// A Verdict is why the supervisor ends a process.
type Verdict int

// The verdicts.
const (
	None Verdict = iota // the process ends by itself, or is stopped from outside
	TooSlow
	Unneeded
	NotStarted // its startupProbe has failed
)

// Decide makes v the verdict, and reports whether it is the first one. The caller then
// sends a stop signal. The grace period begins now.
func (e *Ending) Decide(v Verdict, grace time.Duration) bool {
	if e.Verdict != None || e.Process.Ended {
		return false
	}
	e.Verdict, e.killAt = v, time.Now().Add(grace)
	return true
}

// Stop sends a stop signal, unless the process was sent one before.
func (e *Ending) Stop(sig syscall.Signal) {
	if e.Process.Ended {
		return
	}
	if e.Signal == 0 {
		e.Signal = sig
		_ = syscall.Kill(e.Process.PID, sig)
	}
	_ = syscall.Kill(e.Process.PID, syscall.SIGCONT) // a stopped process would handle no signal but SIGKILL
}

// Kill sends SIGKILL if it is due, and returns the time until then.
func (e *Ending) Kill() time.Duration {
	if e.Process.Ended || e.killAt.IsZero() {
		return life.Forever
	}
	if left := time.Until(e.killAt); left > 0 {
		return left
	}
	e.killAt = time.Time{}
	_ = syscall.Kill(-e.Process.PID, syscall.SIGKILL)
	e.KillErr = syscall.Kill(e.Process.PID, syscall.SIGKILL) // the process may have joined another group
	return life.Forever
}

// Over reports whether nothing more can be done: the process has ended, or can't be
// killed.
func (e *Ending) Over() bool { return e.Process.Ended || e.KillErr != nil }

// WhyAlive continues a sentence about a process that can't be killed.
func (e *Ending) WhyAlive() string {
	return " can't be killed: " + e.KillErr.Error() + ": " + life.OtherUser
}

// A Limit is the time after which a process takes too long, zero for never.
type Limit struct{ at time.Time }

// NewLimit returns a Limit that is reached after this time, 0 for never.
func NewLimit(after time.Duration) (l Limit) {
	if after > 0 {
		l.at = time.Now().Add(after)
	}
	return l
}

// Reached reports whether the limit is reached, and returns the time until then.
func (l Limit) Reached() (is bool, pause time.Duration) {
	if l.at.IsZero() {
		return false, life.Forever
	}
	if left := time.Until(l.at); left > 0 {
		return false, left
	}
	return true, life.Forever
}
