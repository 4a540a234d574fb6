// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package timeout ends a command that takes too long.
package timeout

import (
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/ending"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/output"
	"github.com/entrypointer/entrypointer/internal/supervisor/stoporder"
)

// Options are the time of the command, 0 for no limit.
type Options struct{ After time.Duration }

// Flags adds the flag that sets o.
func (o *Options) Flags(f *cmdline.Flags) {
	f.Add("timeout", "DURATION", `The longest time for the command to run. After it, send SIGTERM unless the
command is being stopped already, after -grace-period SIGKILL, and exit with
124.`, cmdline.Duration(&o.After))
}

// A Timeout is the time limit of a command.
type Timeout struct {
	life   *life.Life
	opts   *Options
	grace  time.Duration // between the stop signal and SIGKILL
	brake  *stoporder.Brake
	ending *ending.Ending // of the command
	limit  ending.Limit
}

// New returns the timeout that the options ask for. Its command is ended by b and e.
func New(l *life.Life, opts *Options, grace time.Duration, b *stoporder.Brake, e *ending.Ending) *Timeout {
	return &Timeout{life: l, opts: opts, grace: grace, brake: b, ending: e}
}

// Starts begins the command's time.
func (t *Timeout) Starts() { t.limit = ending.NewLimit(t.opts.After) }

// EndTooSlow ends the command if it takes too long, and returns the time until then.
func (t *Timeout) EndTooSlow() time.Duration {
	is, pause := t.limit.Reached()
	if is && t.brake.End(ending.TooSlow, syscall.SIGTERM, t.grace, stoporder.ReleaseTooSlow) {
		t.life.Event(output.EventTimeout, "", 0)
	}
	return pause
}

// Failure is the failure of a command that has taken too long.
func (t *Timeout) Failure() error {
	var end string
	if t.ending.Process.Ended {
		end = "sent " + signals.Name(t.ending.Signal) + ", it " + outcome.Describe(t.ending.Process.Status) + ": make it faster, or raise timeout"
	} else {
		end = "it" + t.ending.WhyAlive()
	}
	return outcome.New(outcome.CodeTimeout, outcome.Timeout, "the command timed out after "+t.opts.After.String()+" (entrypointer.dev/timeout); "+end)
}
