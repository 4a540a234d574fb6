// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/order"
)

// The stop signal of a container that others depend on is held back when the pod is
// stopped, until they have ended. The handler of that signal counts it, as it does while
// there is no command, and never sends it. So whenever it comes, the loop finds it.

// heldBack is that signal, 0 if there is none. It is set before there are handlers.
var heldBack syscall.Signal

// A holdup is how far the stop of a container is whose stop signal is held back.
type holdup struct {
	count      int // of signals that the command has not been sent
	began      time.Time
	neighbours *order.Neighbours
	waiter     *await.Waiter
	passed     bool // what comes is the command's
	told       bool // that it is held back
	reminded   bool
}

// Why the stop signal is held back no longer, as it is told by an event.
const (
	stopMet       = "met"      // the others have ended
	stopTimedOut  = "timedOut" // the share of this container is over
	stopAlone     = "alone"    // only this container is stopped
	stopAgain     = "again"    // there is another one
	stopUnneeded  = "stopWhen"
	stopUnstarted = "startupProbe"
)

// aloneAfter is the time within which the kubelet tells all containers of a pod to end.
const aloneAfter = time.Second

// expectStop is called before signals are caught.
func (s *supervision) expectStop() {
	if !s.opts.inOrder() {
		return
	}
	sig := s.opts.stoppedWith()
	if !slices.Contains(endingSignals, sig) {
		endingSignals = append(endingSignals, sig)
	}
	if len(s.opts.stopAfter) > 0 && canHoldBack(sig) {
		heldBack = sig
	}
}

// canHoldBack reports whether a signal can be held back: one that can be handled, and has
// no other meaning to us.
func canHoldBack(sig syscall.Signal) bool {
	return forwarded(sig) && !fault(sig) && sig != syscall.SIGCHLD && sig != syscall.SIGURG
}

// wasStopped reports whether the stop signal has come.
func (s *supervision) wasStopped() bool { return hasCome(s.opts.stoppedWith()) }

// tellStop tells others that the stop signal has come.
func (s *supervision) tellStop() {
	if !s.wasStopped() {
		return
	}
	switch s.self.Phase() {
	case order.Preparing, order.Started, order.Ready:
		s.stopProbing()
		s.tellOthers(order.Stopping, 0)
	}
}

// holdStop holds the stop signal back for as long as others have to end before, and
// returns the time until there is something to do.
func (s *supervision) holdStop(command *process) time.Duration {
	if heldBack == 0 {
		return forever
	}
	h := &s.holdup
	s.takeStops()
	switch {
	case h.count == 0:
		return forever
	case h.passed, h.count > 1: // who asks twice is in a hurry
		s.passStop(command, stopAgain)
		return forever
	case h.waiter == nil:
		h.began = time.Now()
		h.neighbours = order.NewNeighbours(s.opts.stopAfter, directories(s.opts.dependsOn), s.opts.heartbeat)
		h.waiter = await.NewWaiter(h.neighbours, s.opts.stopShare)
	}
	state, waited := h.waiter.Look(), time.Since(h.began)
	unmet := h.neighbours.Unmet()
	alone := !s.opts.stopTogether && !h.neighbours.Stopping()
	switch {
	case state == await.Met:
		s.passStop(command, stopMet)
		return forever
	case alone && waited >= aloneAfter:
		s.passStop(command, stopAlone)
		return forever
	case state == await.TimedOut:
		say("the stop signal was held back for " + s.opts.stopShare.String() + ", and is passed on while these run: " + named(unmet))
		s.passStop(command, stopTimedOut)
		return forever
	}
	s.tellHeld(unmet, waited)
	if alone {
		return min(h.waiter.Pause(), aloneAfter-waited)
	}
	return h.waiter.Pause()
}

// tellHeld makes known for whom the stop signal is held back.
func (s *supervision) tellHeld(unmet []order.Unmet, waited time.Duration) {
	h := &s.holdup
	if !h.told {
		h.told = true
		for _, u := range unmet {
			s.event(EventStopHeld, u.String(), 0)
		}
	}
	if listed(unmet) != listed(s.waiting.unmet) {
		s.waiting = waiting{h.began, unmet}
		s.report(phaseStopping)
	}
	if waited >= reminders[0] && !h.reminded {
		h.reminded = true
		say("the stop signal is held back for " + reminders[0].String() + " now, until these have ended: " + named(unmet))
	}
}

// named names containers that have not ended, and what was seen of each.
func named(unmet []order.Unmet) string {
	var list []string
	for _, u := range unmet {
		list = append(list, u.Name()+" ("+u.Seen+")")
	}
	return strings.Join(list, ", ")
}

// takeStops takes the stop signals that have come since the last time.
func (s *supervision) takeStops() {
	if heldBack != 0 {
		s.holdup.count += int(atomic.SwapUint32(&received[heldBack], 0))
	}
}

// forgetStops has a command that was told to end by its timeout not be told again: many
// programs give up their good end at the second signal.
func (s *supervision) forgetStops() {
	s.takeStops()
	s.holdup.count, s.holdup.passed = 0, true
}

// endHoldup is called when the command has ended.
func (s *supervision) endHoldup() {
	if s.holdup.waiter != nil {
		s.holdup.waiter.Close()
	}
	s.waiting = waiting{}
}

func directories(list []order.Dependency) (dirs []string) {
	for _, d := range list {
		dirs = append(dirs, d.Dir)
	}
	return dirs
}

// passStop sends the command the stop signals that were held back. From now on they are
// sent when they come.
func (s *supervision) passStop(command *process, why string) {
	h := &s.holdup
	if !h.passed {
		h.passed = true
		if h.waiter != nil {
			h.waiter.Close()
		}
		if h.told {
			s.event(EventStopPassed, why, 0)
		}
		s.waiting = waiting{}
		s.report(phaseStopping)
	}
	atomic.AddUint32(&received[heldBack], uint32(h.count)) //nolint:gosec // G115: it was taken from there
	h.count = 0
	sendPending(command.pid, heldBack)
	s.tellRefused()
}
