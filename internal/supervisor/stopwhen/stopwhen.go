// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package stopwhen ends a command that is needed only until other containers have ended.
package stopwhen

import (
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/ending"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/output"
	"github.com/entrypointer/entrypointer/internal/supervisor/report"
	"github.com/entrypointer/entrypointer/internal/supervisor/stoporder"
	"github.com/entrypointer/entrypointer/pkg/conditions"
)

// Options name the containers for which the command is needed.
type Options struct{ Ends []order.Dependency }

// Flags adds the flags that set o.
func (o *Options) Flags(f *cmdline.Flags) {
	f.Add("stop-when", "CONDITION:DIRECTORY", `End the command when the container with this -order-dir has completed or
exited: send the stop signal, after -grace-period SIGKILL, and exit with 0.
May be repeated: the command ends when all conditions are met, or when one
of them can't be met any more (-final-exit-codes).`, o.add)
}

func (o *Options) add(value string) string {
	d, ok := cmdline.ParseEnd(value)
	if !ok {
		return "not an outcome of a container: use " + conditions.Ends.String() + ", a colon, and an absolute path"
	}
	o.Ends = append(o.Ends, d)
	return ""
}

// A Helper is a command that is needed only until other containers have ended
// (-stop-when). Without such containers, it is always needed.
type Helper struct {
	life         *life.Life
	opts         *Options
	heartbeat    bool
	grace        time.Duration // between the stop signal and SIGKILL
	brake        *stoporder.Brake
	ending       *ending.Ending // of the command
	waiter       *await.Waiter
	dependencies *order.Dependencies
	log          report.WaitLog
	state        await.State // Waiting as long as the command is needed
	concluded    bool        // the result doesn't matter any more
}

// New returns the helper that the options ask for. Its command is ended by b and e.
func New(l *life.Life, opts *Options, heartbeat bool, grace time.Duration, b *stoporder.Brake, e *ending.Ending) *Helper {
	h := &Helper{life: l, opts: opts, heartbeat: heartbeat, grace: grace, brake: b, ending: e}
	if len(opts.Ends) > 0 {
		l.Add(h)
	}
	return h
}

// Poll appends nothing: the kernel reports changes of other containers by a signal.
func (h *Helper) Poll(fds []unix.PollFd) []unix.PollFd { return fds }

// PendingEnd returns the signal that ends what precedes the command's start: an ending
// signal that has arrived, or SIGTERM if the command isn't needed any more, 0 for none.
func (h *Helper) PendingEnd() syscall.Signal {
	if h.FoundUnneeded() {
		return syscall.SIGTERM
	}
	return h.life.PendingEndSignal()
}

// ErrUnneeded is the error for a command that isn't started because it isn't needed any
// more. Excuse replaces it.
var ErrUnneeded = outcome.Own("the command is not needed any more")

// IsNeeded reports whether the command is still needed, as of the last look.
func (h *Helper) IsNeeded() bool {
	h.look()
	return h.concluded || h.state == await.Waiting
}

// FoundUnneeded reports whether a look has found that the command isn't needed any more.
func (h *Helper) FoundUnneeded() bool {
	return !h.concluded && h.state != await.Waiting
}

// look looks at the containers for which the command is needed, unless the result
// is known or doesn't matter.
func (h *Helper) look() {
	if len(h.opts.Ends) == 0 || h.concluded || h.state != await.Waiting {
		return
	}
	if h.waiter == nil {
		h.dependencies = order.NewDependencies(h.opts.Ends, h.heartbeat)
		h.waiter = await.NewWaiter(h.dependencies, 0)
	}
	h.state = h.waiter.Look()
	for _, line := range h.log.DueLines(0, h.dependencies.Unmet()) {
		console.Say(line)
	}
	if h.state != await.Waiting {
		h.life.Event(output.EventStopWhen, "", int(h.state))
	}
}

// Act looks at the containers for which the command is needed, and returns the time until
// the next call.
func (h *Helper) Act() time.Duration {
	if len(h.opts.Ends) == 0 || h.concluded || h.state != await.Waiting {
		return life.Forever
	}
	if !h.IsNeeded() {
		return 0
	}
	return h.waiter.Pause()
}

// EndUnneeded ends the command if it isn't needed any more.
func (h *Helper) EndUnneeded() {
	if h.ending.Verdict != ending.None || h.ending.Process.Ended || h.IsNeeded() {
		return
	}
	h.life.Tell(h.Why() + ": stopping the command")
	h.life.SetPhase(report.Stopping)
	h.brake.End(ending.Unneeded, h.life.StopSignal, h.grace, stoporder.ReleaseUnneeded)
}

// Why says why the command isn't needed any more.
func (h *Helper) Why() string {
	var names []string
	for _, d := range h.opts.Ends {
		names = append(names, d.String())
	}
	if h.state == await.Met {
		return "needed until " + strings.Join(names, ", ") + ", which is met now (stop-when)"
	}
	return "needed until " + report.DescribeUnmet(report.OnlyFailed(h.dependencies.Unmet())) + ", which is not restarted (stop-when)"
}

// Excuse replaces the error of a command that wasn't started because it isn't
// needed any more: that is a success. From now on, the command counts as needed.
func (h *Helper) Excuse(err error) error {
	if h.waiter != nil {
		h.waiter.Close()
	}
	h.concluded = true
	if err == nil || h.state == await.Waiting || !h.life.Started.IsZero() {
		return err
	}
	return outcome.New(0, outcome.Unneeded, h.Why()+": the command was not started")
}
