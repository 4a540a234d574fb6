// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
)

// A helper is a command that is needed only until other containers have ended
// (-stop-when). The zero value is always needed.
type helper struct {
	waiter       *await.Waiter
	dependencies *order.Dependencies
	log          waitLog
	outcome      await.State // Waiting as long as the command is needed
	concluded    bool        // the result doesn't matter any more
}

// errUnneeded is the error for a command that isn't started because it isn't needed any
// more. excuseUnneeded replaces it.
var errUnneeded = outcome.Own("the command is not needed any more")

// isNeeded reports whether the command is still needed, as of the last look.
func (s *supervision) isNeeded() bool {
	s.lookAtWork()
	return s.helper.concluded || s.helper.outcome == await.Waiting
}

// foundUnneeded reports whether a look has found that the command isn't needed any more.
func (s *supervision) foundUnneeded() bool {
	return !s.helper.concluded && s.helper.outcome != await.Waiting
}

// lookAtWork looks at the containers for which the command is needed, unless the result
// is known or doesn't matter.
func (s *supervision) lookAtWork() {
	h := &s.helper
	if len(s.opts.stopWhen) == 0 || h.concluded || h.outcome != await.Waiting {
		return
	}
	if h.waiter == nil {
		h.dependencies = order.NewDependencies(s.opts.stopWhen, s.opts.heartbeat)
		h.waiter = await.NewWaiter(h.dependencies, 0)
	}
	h.outcome = h.waiter.Look()
	for _, line := range h.log.dueLines(0, h.dependencies.Unmet()) {
		console.Say(line)
	}
	if h.outcome != await.Waiting {
		s.event(EventStopWhen, "", int(h.outcome))
	}
}

// watchWork calls lookAtWork while the loop waits for something else, and returns the
// time until the next call.
func (s *supervision) watchWork() time.Duration {
	h := &s.helper
	if len(s.opts.stopWhen) == 0 || h.concluded || h.outcome != await.Waiting {
		return forever
	}
	if !s.isNeeded() {
		return 0
	}
	return h.waiter.Pause()
}

// endUnneeded ends the command if it isn't needed any more.
func (s *supervision) endUnneeded() {
	if s.ending.verdict != noVerdict || s.ending.process.ended || s.isNeeded() {
		return
	}
	s.message = s.whyUnneeded() + ": stopping the command"
	console.Say(s.message)
	s.setPhase(phaseStopping)
	s.endCommand(unneeded, s.opts.stoppedWith(), s.opts.gracePeriod, releaseUnneeded)
}

func (s *supervision) whyUnneeded() string {
	var names []string
	for _, d := range s.opts.stopWhen {
		names = append(names, d.String())
	}
	if s.helper.outcome == await.Met {
		return "needed until " + strings.Join(names, ", ") + ", which is met now (stop-when)"
	}
	return "needed until " + describeUnmet(onlyFailed(s.helper.dependencies.Unmet())) + ", which is not restarted (stop-when)"
}

// excuseUnneeded replaces the error of a command that wasn't started because it isn't
// needed any more: that is a success. From now on, the command counts as needed.
func (s *supervision) excuseUnneeded(err error) error {
	h := &s.helper
	if h.waiter != nil {
		h.waiter.Close()
	}
	h.concluded = true
	if err == nil || h.outcome == await.Waiting || !s.started.IsZero() {
		return err
	}
	return outcome.New(0, outcome.Unneeded, s.whyUnneeded() + ": the command was not started")
}
