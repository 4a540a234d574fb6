// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
)

// When the pod is stopped, the supervisor holds back the stop signal of its command
// until the containers that depend on it have ended. The handler of that signal counts
// it and never forwards it, and the loop finds the count.

// A heldStop is the state of a stop signal that is held back.
type heldStop struct {
	count      int // stop signals that have arrived and were not sent to the command
	began      time.Time
	share      time.Duration // the longest time from began on
	neighbours *order.Neighbours
	waiter     *await.Waiter
	recorded   bool // an event says that the signal is held back
	reminded   bool
	// aliveProber is the livenessProbe, which is tried once. It is nil without one, and
	// after the attempt.
	aliveProber *order.Prober
	alive       bool // the livenessProbe has succeeded
}

// The reasons to forward the stop signal, in EventStopPassed.
const (
	releaseMet           = "met"      // all dependents have ended
	releaseTimedOut      = "timedOut" // this container's share of the grace period is over
	releaseAlone         = "alone"    // only this container is being stopped
	releaseAgain         = "again"    // another stop signal has arrived
	releaseTooSlow       = "timeout"
	releaseUnneeded      = "stopWhen"
	releaseStartupFailed = "startupProbe"
)

// podStopWindow is the time within which the kubelet sends the stop signal to all
// containers of a pod.
const podStopWindow = time.Second

// registerStopSignal configures the stop signal. It is called before the handlers are
// installed.
func (s *supervision) registerStopSignal() {
	if !s.opts.inOrder() {
		return
	}
	sig := s.opts.stoppedWith()
	if !slices.Contains(endingSignals, sig) {
		endingSignals = append(endingSignals, sig)
	}
	if len(s.opts.stopAfter) > 0 && signals.CanHold(sig) {
		signals.Hold(sig)
	}
}

// stopSignalCame reports whether the stop signal has arrived.
func (s *supervision) stopSignalCame() bool { return signals.Came(s.opts.stoppedWith()) }

// stopCame reports whether the container was asked to stop. The kubelet sends SIGTERM if
// it doesn't know the stop signal of the image. Other signals may have another purpose,
// such as a reload (SIGHUP).
func (s *supervision) stopCame() bool { return s.stopSignalCame() || signals.Came(syscall.SIGTERM) }

// publishStopping publishes that the stop signal has arrived.
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

// holdStop holds the stop signal back until all dependents have ended, and returns the
// time until the next call. Once the command was sent its stop signal, or is being ended
// for another reason, signals are forwarded at once.
func (s *supervision) holdStop() time.Duration {
	if signals.Held() == 0 {
		return forever
	}
	h := &s.heldStop
	s.takeStopSignals()
	switch {
	case h.count == 0:
		return forever
	case s.ending.signal == signals.Held(), s.ending.verdict != noVerdict, h.count > 1: // a second signal asks for a fast end
		s.releaseStop(releaseAgain)
		return forever
	case h.waiter == nil:
		h.began = time.Now()
		h.neighbours = order.NewNeighbours(s.opts.stopAfter, directories(s.opts.dependsOn), s.opts.heartbeat, s.opts.podGrace())
		// A preStop hook may have delayed this signal: one that is known to sleep, or one
		// whose time shows because a neighbour was stopped before.
		_, _ = h.neighbours.Look()
		delay := max(s.opts.stopDelay, h.neighbours.StoppedFor(h.began))
		h.share = max(s.opts.stopShare-delay, time.Millisecond)
		h.waiter = await.NewWaiter(h.neighbours, h.share)
	}
	state, waited := h.waiter.Look(), time.Since(h.began)
	unmet := h.neighbours.Unmet()
	alone, nextProbe := s.isStoppedAlone(state)
	switch {
	case state == await.Met:
		if pause := min(s.readsOn(), h.share-waited); pause > 0 {
			s.waiting.unmet = nil
			return pause
		}
		s.releaseStop(releaseMet)
		return forever
	case alone && waited >= podStopWindow:
		s.releaseStop(releaseAlone)
		return forever
	case state == await.TimedOut:
		console.Say("the stop signal was held back for " + h.share.Truncate(time.Millisecond).String() + ", and is forwarded while these containers still run: " + describeContainers(unmet))
		s.releaseStop(releaseTimedOut)
		return forever
	}
	s.reportHeldStop(unmet, waited)
	if alone {
		return min(h.waiter.Pause(), podStopWindow-waited, nextProbe)
	}
	return h.waiter.Pause()
}

// prepareAliveProbe prepares the livenessProbe, which begins with a stop that is held back.
func (s *supervision) prepareAliveProbe(env []string) {
	if s.opts.alive.Kinds() > 0 {
		s.heldStop.aliveProber = order.NewProber(&s.opts.alive, s.probeRunner(env))
	}
}

func (s *supervision) closeAliveProbe() {
	if h := &s.heldStop; h.aliveProber != nil {
		h.aliveProber.Close()
		h.aliveProber = nil
	}
}

// isStoppedAlone reports whether nothing shows that the whole pod is being stopped:
// neither a neighbour, nor the livenessProbe, after whose success the kubelet doesn't stop
// a container alone. While it tries the probe, it returns the time until the next call.
func (s *supervision) isStoppedAlone(dependents await.State) (alone bool, pause time.Duration) {
	h := &s.heldStop
	if dependents == await.Met || s.opts.stopTogether || h.alive || h.neighbours.Stopping() {
		s.closeAliveProbe()
		return false, forever
	}
	if h.aliveProber == nil {
		return true, forever
	}
	succeeded, next := h.aliveProber.Act()
	if !succeeded && h.aliveProber.Failures() == 0 {
		return true, max(time.Until(next), 0)
	}
	h.alive = succeeded
	s.closeAliveProbe()
	return !succeeded, forever
}

// reportHeldStop publishes and prints the containers for which the stop signal is held
// back.
func (s *supervision) reportHeldStop(unmet []order.Unmet, waited time.Duration) {
	h := &s.heldStop
	if !h.recorded {
		h.recorded = true
		s.recordSignals() // the signal that is held back may have come since the loop did
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
		console.Say("the stop signal has been held back for " + reminderTimes[0].String() + ", until these containers end: " + describeContainers(unmet))
	}
}

// describeContainers lists containers, each with the last observation.
func describeContainers(unmet []order.Unmet) string {
	var list []string
	for _, u := range unmet {
		list = append(list, u.Name()+" ("+u.Seen+")")
	}
	return strings.Join(list, ", ")
}

// takeStopSignals takes the stop signals that have arrived since the last call.
func (s *supervision) takeStopSignals() {
	s.heldStop.count += signals.TakeHeld()
}

// endHeldStop releases the resources after the command's end.
func (s *supervision) endHeldStop() {
	s.closeAliveProbe()
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

// releaseStop sends the command the stop signals that were held back.
func (s *supervision) releaseStop(why string) {
	h := &s.heldStop
	s.closeAliveProbe()
	if s.ending.signal != signals.Held() {
		s.ending.signal = signals.Held()
		if h.waiter != nil {
			h.waiter.Close()
		}
		if h.recorded {
			s.event(EventStopPassed, why, 0)
		}
		s.waiting = waitStatus{}
		s.setPhase(phaseStopping)
	}
	signals.SendHeld(s.ending.process.pid, h.count)
	h.count = 0
	s.reportRefused()
}
