// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/order"
)

// A helper is a command that is needed only until other containers have ended
// (-stop-when). The zero value is always needed.
type helper struct {
	waiter       *await.Waiter
	dependencies *order.Dependencies
	log          waitLog
	outcome      await.State // Waiting as long as the command is needed
	stopSent     bool        // the command was sent the stop signal
	concluded    bool        // the result doesn't matter any more
}

// errUnneeded is the error for an unneeded command that isn't started. excuseUnneeded
// replaces it.
var errUnneeded = ownFailure("the command is not needed any more")

// isUnneeded reports whether the command isn't needed any more. Before the command's
// start, it also counts a SIGTERM, which ends the current wait, hook or pause.
func (s *supervision) isUnneeded() bool {
	h := &s.helper
	if len(s.opts.stopWhen) == 0 || h.concluded {
		return false
	}
	if h.waiter == nil {
		h.dependencies = order.NewDependencies(s.opts.stopWhen, s.opts.heartbeat)
		h.waiter = await.NewWaiter(h.dependencies, 0)
	}
	if h.outcome != await.Waiting {
		return true
	}
	h.outcome = h.waiter.Look()
	for _, line := range h.log.dueLines(0, h.dependencies.Unmet()) {
		say(line)
	}
	if h.outcome == await.Waiting {
		return false
	}
	s.event(EventStopWhen, "", int(h.outcome))
	if s.started.IsZero() {
		atomic.AddUint32(&unforwarded[syscall.SIGTERM], 1)
	}
	return true
}

// checkStopWhen calls isUnneeded while the loop waits for something else, and returns
// the time until the next call.
func (s *supervision) checkStopWhen() time.Duration {
	h := &s.helper
	switch {
	case len(s.opts.stopWhen) == 0, h.concluded, h.outcome != await.Waiting:
		return forever
	case s.isUnneeded():
		return 0
	}
	return h.waiter.Pause()
}

// endUnneeded stops the command if it isn't needed any more. The limit then sends
// SIGKILL after the grace period.
func (s *supervision) endUnneeded(l *limit) {
	if l.process.ended || l.reached || !s.isUnneeded() {
		return
	}
	s.helper.stopSent = true
	l.reached, l.next = true, time.Now().Add(l.grace)
	s.message = s.whyUnneeded() + ": stopping the command"
	say(s.message)
	s.setPhase(phaseStopping)
	s.sendStop(l.process, releaseUnneeded)
}

// recordUnneededEnd records how an unneeded command ended.
func (s *supervision) recordUnneededEnd(l *limit) {
	if l.process.ended {
		s.recordEnd(l.process.status)
	} else {
		s.message = s.whyUnneeded() + ": the command can't be killed: " + l.killErr.Error() + ": " + otherUser
		say(s.message)
	}
	s.exitCode, s.reason = 0, reasonUnneeded
}

// sendStop sends the command the stop signal, unless it has already got one: many
// programs abort their orderly shutdown at a second signal.
func (s *supervision) sendStop(command *process, why string) {
	s.takeStopSignals()
	switch {
	case s.heldStop.count > 0:
		s.releaseStop(command, why)
	case s.heldStop.released, heldSignal == 0 && s.stopSignalCame():
	default:
		_ = syscall.Kill(command.pid, s.opts.stoppedWith())
		s.heldStop.released = true // later stop signals are forwarded at once
	}
	_ = syscall.Kill(command.pid, syscall.SIGCONT)
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
// needed any more: that is a success. Later calls of isUnneeded return false.
func (s *supervision) excuseUnneeded(err error) error {
	h := &s.helper
	if h.waiter != nil {
		h.waiter.Close()
	}
	h.concluded = true
	if err == nil || h.outcome == await.Waiting || h.stopSent || !s.started.IsZero() {
		return err
	}
	return &failure{0, reasonUnneeded, s.whyUnneeded() + ": the command was not started"}
}
