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

// A helper is a command that is of use only until other containers have ended
// (-stop-when). The zero value is of use for ever.
type helper struct {
	waiter       *await.Waiter
	dependencies *order.Dependencies
	log          waitLog
	outcome      await.State // Waiting while it is of use
	stopSent     bool        // the command was told to end
	concluded    bool        // it is of no matter any more
}

// errUnneeded is why a command of no use wasn't started; excused says more.
var errUnneeded = ownFailure("the command is of no use any more")

// unneeded reports whether what the command is there for has come to its end. If the
// command isn't started yet, what comes before it ends as by SIGTERM.
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

// attend looks whether the command is of use while something else is waited for, and
// returns the time until the next look.
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

// endUnneeded tells the command to end if it is of no use any more. Its limit does the
// rest, as when the time is up.
func (s *supervision) endUnneeded(l *limit) {
	if l.process.ended || l.reached || !s.isUnneeded() {
		return
	}
	s.helper.stopSent = true
	l.reached, l.next = true, time.Now().Add(l.grace)
	s.message = s.whyUnneeded() + ": the command is ended"
	say(s.message)
	s.setPhase(phaseStopping)
	s.sendStop(l.process, releaseUnneeded)
}

// concludeUnneeded takes note of how the command ended that was of no use any more.
func (s *supervision) recordUnneededEnd(l *limit) {
	if l.process.ended {
		s.recordEnd(l.process.status)
	} else {
		s.message = s.whyUnneeded() + ": the command can't be ended: " + l.killErr.Error() + ": " + otherUser
		say(s.message)
	}
	s.exitCode, s.reason = 0, reasonUnneeded
}

// sendStop sends the command the stop signal, unless it was sent it before: many
// programs give up their good end at the second.
func (s *supervision) sendStop(command *process, why string) {
	s.takeStopSignals()
	switch {
	case s.heldStop.count > 0:
		s.releaseStop(command, why)
	case s.heldStop.released, heldSignal == 0 && s.stopSignalCame():
	default:
		_ = syscall.Kill(command.pid, s.opts.stoppedWith())
		s.heldStop.released = true // what comes later isn't held
	}
	_ = syscall.Kill(command.pid, syscall.SIGCONT)
}

func (s *supervision) whyUnneeded() string {
	var names []string
	for _, d := range s.opts.stopWhen {
		names = append(names, d.String())
	}
	if s.helper.outcome == await.Met {
		return "needed until " + strings.Join(names, ", ") + ", which is so (stop-when)"
	}
	return "needed until " + describeUnmet(onlyFailed(s.helper.dependencies.Unmet())) + ", which is not restarted (stop-when)"
}

// excused is err, or the success of a command that wasn't started because it was of no
// use any more. After that, nobody looks.
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
