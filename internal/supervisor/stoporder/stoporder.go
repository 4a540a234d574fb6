// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package stoporder holds back the stop signal of the command while other containers still
// depend on it, and has each end of the command send one stop signal only.
package stoporder

import (
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/ending"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
	"github.com/entrypointer/entrypointer/internal/supervisor/output"
	"github.com/entrypointer/entrypointer/internal/supervisor/pipe"
	"github.com/entrypointer/entrypointer/internal/supervisor/report"
)

// When the pod is stopped, the supervisor holds back the stop signal of its command
// until the containers that depend on it have ended. The handler of that signal counts
// it and never forwards it, and the loop finds the count.

// A Brake is the state of a stop signal that is held back.
type Brake struct {
	life         *life.Life
	opts         *Options
	heartbeat    bool
	dependencies []string // order directories of the containers that this one depends on
	pipes        *pipe.Pipes
	ending       *ending.Ending // of the command

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

// New returns the brake of a command that e ends. It observes these dependencies, too.
func New(l *life.Life, opts *Options, heartbeat bool, dependencies []order.Dependency, pipes *pipe.Pipes, e *ending.Ending) *Brake {
	b := &Brake{life: l, opts: opts, heartbeat: heartbeat, pipes: pipes, ending: e}
	for _, d := range dependencies {
		b.dependencies = append(b.dependencies, d.Dir)
	}
	if opts.Alive.Kinds() > 0 {
		l.Add(b)
	}
	return b
}

// Act has nothing to do: Hold tries the livenessProbe.
func (b *Brake) Act() time.Duration { return life.Forever }

// Poll appends the descriptors of the livenessProbe.
func (b *Brake) Poll(fds []unix.PollFd) []unix.PollFd {
	if b.aliveProber != nil {
		fds = b.aliveProber.Poll(fds)
	}
	return fds
}

// The reasons to forward the stop signal, in output.EventStopPassed.
const (
	releaseMet           = "met"      // all dependents have ended
	releaseTimedOut      = "timedOut" // this container's share of the grace period is over
	releaseAlone         = "alone"    // only this container is being stopped
	releaseAgain         = "again"    // another stop signal has arrived
	ReleaseTooSlow       = "timeout"
	ReleaseUnneeded      = "stopWhen"
	ReleaseStartupFailed = "startupProbe"
)

// Catch has the stop signal held back from now on. It is called before the handlers are
// installed.
func (b *Brake) Catch() {
	if sig := b.life.StopSignal; len(b.opts.After) > 0 && signals.CanHold(sig) {
		signals.Hold(sig)
	}
}

// Hold holds the stop signal back until all dependents have ended, and returns the
// time until the next call. Once the command was sent its stop signal, or is being ended
// for another reason, signals are forwarded at once.
func (b *Brake) Hold() time.Duration {
	if signals.Held() == 0 {
		return life.Forever
	}
	b.take()
	switch {
	case b.count == 0:
		return life.Forever
	case b.ending.Signal == signals.Held(), b.ending.Verdict != ending.None, b.count > 1: // a second signal asks for a fast end
		b.release(releaseAgain)
		return life.Forever
	case b.waiter == nil:
		b.began = time.Now()
		b.neighbours = order.NewNeighbours(b.opts.After, b.dependencies, b.heartbeat, b.opts.podGrace())
		// A preStop hook may have delayed this signal: one that is known to sleep, or one
		// whose time shows because a neighbour was stopped before.
		_, _ = b.neighbours.Look()
		delay := max(b.opts.Delay, b.neighbours.StoppedFor(b.began))
		b.share = max(b.opts.Share-delay, time.Millisecond)
		b.waiter = await.NewWaiter(b.neighbours, b.share)
	}
	state, waited := b.waiter.Look(), time.Since(b.began)
	unmet := b.neighbours.Unmet()
	alone, nextProbe := b.isStoppedAlone(state)
	switch {
	case state == await.Met:
		if pause := min(b.pipes.ReadsOn(), b.share-waited); pause > 0 {
			b.life.Waiting.Unmet = nil
			return pause
		}
		b.release(releaseMet)
		return life.Forever
	case alone && waited >= podStopWindow:
		b.release(releaseAlone)
		return life.Forever
	case state == await.TimedOut:
		console.Say("the stop signal was held back for " + b.share.Truncate(time.Millisecond).String() + ", and is forwarded while these containers still run: " + describeContainers(unmet))
		b.release(releaseTimedOut)
		return life.Forever
	}
	b.reportHeld(unmet, waited)
	if alone {
		return min(b.waiter.Pause(), podStopWindow-waited, nextProbe)
	}
	return b.waiter.Pause()
}

// Starts prepares the livenessProbe, which begins with a stop that is held back.
func (b *Brake) Starts(env []string) {
	if b.opts.Alive.Kinds() > 0 {
		b.aliveProber = order.NewProber(&b.opts.Alive, b.life.ProbeRunner(env))
	}
}

func (b *Brake) closeAliveProbe() {
	if b.aliveProber != nil {
		b.aliveProber.Close()
		b.aliveProber = nil
	}
}

// isStoppedAlone reports whether nothing shows that the whole pod is being stopped:
// neither a neighbour, nor the livenessProbe, after whose success the kubelet doesn't stop
// a container alone. While it tries the probe, it returns the time until the next call.
func (b *Brake) isStoppedAlone(dependents await.State) (alone bool, pause time.Duration) {
	if dependents == await.Met || b.opts.Together || b.alive || b.neighbours.Stopping() {
		b.closeAliveProbe()
		return false, life.Forever
	}
	if b.aliveProber == nil {
		return true, life.Forever
	}
	succeeded, next := b.aliveProber.Act()
	if !succeeded && b.aliveProber.Failures() == 0 {
		return true, life.Left(next)
	}
	b.alive = succeeded
	b.closeAliveProbe()
	return !succeeded, life.Forever
}

// reportHeld publishes and prints the containers for which the stop signal is held
// back.
func (b *Brake) reportHeld(unmet []order.Unmet, waited time.Duration) {
	if !b.recorded {
		b.recorded = true
		b.life.RecordSignals() // the signal that is held back may have come since the loop did
		for _, u := range unmet {
			b.life.Event(output.EventStopHeld, u.String(), 0)
		}
	}
	b.life.ShowWait(report.Stopping, report.WaitStatus{Since: b.began, Unmet: unmet})
	if waited >= report.ReminderTimes[0] && !b.reminded {
		b.reminded = true
		console.Say("the stop signal has been held back for " + report.ReminderTimes[0].String() + ", until these containers end: " + describeContainers(unmet))
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

// take takes the stop signals that have arrived since the last call.
func (b *Brake) take() {
	b.count += signals.TakeHeld()
}

// Close releases the resources after the command's end.
func (b *Brake) Close() {
	b.closeAliveProbe()
	if b.waiter != nil {
		b.waiter.Close()
	}
	b.life.Waiting = report.WaitStatus{}
}

// release sends the command the stop signals that were held back.
func (b *Brake) release(why string) {
	b.closeAliveProbe()
	if b.ending.Signal != signals.Held() {
		b.ending.Signal = signals.Held()
		if b.waiter != nil {
			b.waiter.Close()
		}
		if b.recorded {
			b.life.Event(output.EventStopPassed, why, 0)
		}
		b.life.Waiting = report.WaitStatus{}
		b.life.SetPhase(report.Stopping)
	}
	signals.SendHeld(b.ending.Process.PID, b.count)
	b.count = 0
	b.life.ReportRefused()
}

// End ends the command, and reports whether v is the first verdict. If a stop
// signal is held back, the command gets that one instead of sig.
func (b *Brake) End(v ending.Verdict, sig syscall.Signal, grace time.Duration, why string) bool {
	if !b.ending.Decide(v, grace) {
		return false
	}
	b.take()
	b.NoteForwarded() // the handler may have sent one since the loop looked
	if b.count > 0 {
		b.release(why)
	}
	b.ending.Stop(sig)
	return true
}

// NoteForwarded notes that a signal handler has sent the command a stop signal.
func (b *Brake) NoteForwarded() {
	for _, sig := range []syscall.Signal{b.life.StopSignal, syscall.SIGTERM} {
		if b.ending.Signal == 0 && sig != signals.Held() && signals.Came(sig) {
			b.ending.Signal = sig
		}
	}
}
