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
var heldSignal syscall.Signal

// A holdup is how far the stop of a container is whose stop signal is held back.
type heldStop struct {
	count      int // of signals that the command has not been sent
	began      time.Time
	neighbours *order.Neighbours
	waiter     *await.Waiter
	released   bool // what comes is the command's
	recorded   bool // that it is held back
	reminded   bool
}

// Why the stop signal is held back no longer, as it is told by an event.
const (
	releaseMet           = "met"      // the others have ended
	releaseTimedOut      = "timedOut" // the share of this container is over
	releaseAlone         = "alone"    // only this container is stopped
	releaseAgain         = "again"    // there is another one
	releaseUnneeded      = "stopWhen"
	releaseStartupFailed = "startupProbe"
)

// aloneAfter is the time within which the kubelet tells all containers of a pod to end.
const podStopWindow = time.Second

// expectStop is called before signals are caught.
func (s *supervision) registerStopSignal() {
	if !s.opts.inOrder() {
		return
	}
	sig := s.opts.stoppedWith()
	if !slices.Contains(endingSignals, sig) {
		endingSignals = append(endingSignals, sig)
	}
	if len(s.opts.stopAfter) > 0 && canHoldBack(sig) {
		heldSignal = sig
	}
}

// canHoldBack reports whether a signal can be held back: one that can be handled, and has
// no other meaning to us.
func canHoldBack(sig syscall.Signal) bool {
	return isForwarded(sig) && !isFault(sig) && sig != syscall.SIGCHLD && sig != syscall.SIGURG
}

// wasStopped reports whether the stop signal has come.
func (s *supervision) stopSignalCame() bool { return signalCame(s.opts.stoppedWith()) }

// tellStop tells others that the stop signal has come.
func (s *supervision) publishStopping() {
	if !s.stopSignalCame() {
		return
	}
	switch s.incarnation.Phase() {
	case order.Preparing, order.Started, order.Ready:
		s.stopProbing()
		s.publishPhase(order.Stopping, 0)
	}
}

// holdStop holds the stop signal back for as long as others have to end before, and
// returns the time until there is something to do.
func (s *supervision) holdStop(command *process) time.Duration {
	if heldSignal == 0 {
		return forever
	}
	h := &s.heldStop
	s.takeStopSignals()
	switch {
	case h.count == 0:
		return forever
	case h.released, h.count > 1: // who asks twice is in a hurry
		s.releaseStop(command, releaseAgain)
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
		s.releaseStop(command, releaseMet)
		return forever
	case alone && waited >= podStopWindow:
		s.releaseStop(command, releaseAlone)
		return forever
	case state == await.TimedOut:
		say("the stop signal was held back for " + s.opts.stopShare.String() + ", and is passed on while these run: " + describeContainers(unmet))
		s.releaseStop(command, releaseTimedOut)
		return forever
	}
	s.reportHeldStop(unmet, waited)
	if alone {
		return min(h.waiter.Pause(), podStopWindow-waited)
	}
	return h.waiter.Pause()
}

// tellHeld makes known for whom the stop signal is held back.
func (s *supervision) reportHeldStop(unmet []order.Unmet, waited time.Duration) {
	h := &s.heldStop
	if !h.recorded {
		h.recorded = true
		for _, u := range unmet {
			s.event(EventStopHeld, u.String(), 0)
		}
	}
	if describeUnmet(unmet) != describeUnmet(s.waiting.unmet) {
		s.waiting = waitStatus{h.began, unmet}
		s.setPhase(phaseStopping)
	}
	if waited >= reminderTimes[0] && !h.reminded {
		h.reminded = true
		say("the stop signal is held back for " + reminderTimes[0].String() + " now, until these have ended: " + describeContainers(unmet))
	}
}

// named names containers that have not ended, and what was seen of each.
func describeContainers(unmet []order.Unmet) string {
	var list []string
	for _, u := range unmet {
		list = append(list, u.Name()+" ("+u.Seen+")")
	}
	return strings.Join(list, ", ")
}

// takeStops takes the stop signals that have come since the last time.
func (s *supervision) takeStopSignals() {
	if heldSignal != 0 {
		s.heldStop.count += int(atomic.SwapUint32(&unforwarded[heldSignal], 0))
	}
}

// forgetStops has a command that was told to end by its timeout not be told again: many
// programs give up their good end at the second signal.
func (s *supervision) dropStopSignals() {
	s.takeStopSignals()
	s.heldStop.count, s.heldStop.released = 0, true
}

// endHoldup is called when the command has ended.
func (s *supervision) endHeldStop() {
	if s.heldStop.waiter != nil {
		s.heldStop.waiter.Close()
	}
	s.waiting = waitStatus{}
}

func directories(list []order.Dependency) (dirs []string) {
	for _, d := range list {
		dirs = append(dirs, d.Dir)
	}
	return dirs
}

// passStop sends the command the stop signals that were held back. From now on they are
// sent when they come.
func (s *supervision) releaseStop(command *process, why string) {
	h := &s.heldStop
	if !h.released {
		h.released = true
		if h.waiter != nil {
			h.waiter.Close()
		}
		if h.recorded {
			s.event(EventStopPassed, why, 0)
		}
		s.waiting = waitStatus{}
		s.setPhase(phaseStopping)
	}
	atomic.AddUint32(&unforwarded[heldSignal], uint32(h.count)) //nolint:gosec // G115: it was taken from there
	h.count = 0
	sendPending(command.pid, heldSignal)
	s.reportRefused()
}
