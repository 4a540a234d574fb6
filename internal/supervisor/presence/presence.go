// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package presence is this container as others of its pod see it: the state that it
// publishes, and the readiness of its command.
package presence

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
	"github.com/entrypointer/entrypointer/internal/supervisor/report"
)

// A Presence publishes this container's state to containers that depend on it. Without an
// order directory, it publishes nothing.
type Presence struct {
	life              *life.Life
	opts              *Options
	incarnation       *order.Incarnation // nil if no container depends on this one
	prober            *order.Prober      // non-nil from the command's start until it is ready
	publishComplained bool               // the error was printed that the state can't be published
	lastWordRepeated  bool               // the published end was repeated, or needed no repetition
	unreadyComplained bool               // the reason was printed for which the command isn't ready
	unready           string             // the published reason for which the command isn't ready
	unreadySince      time.Time          // when it was published
}

// New returns the presence that the options ask for.
func New(l *life.Life, opts *Options) *Presence {
	p := &Presence{life: l, opts: opts}
	if opts.Dir != "" {
		l.Add(p)
	}
	return p
}

// Announce publishes that this incarnation has begun.
func (p *Presence) Announce() {
	if p.opts.Dir == "" {
		return
	}
	p.incarnation = order.NewIncarnation(p.opts.Dir, p.opts.Heartbeat, signals.Write)
	p.Publish(order.Preparing, 0)
}

// Incarnation is this life of the container, nil if no container depends on it.
func (p *Presence) Incarnation() *order.Incarnation { return p.incarnation }

// PublishReason publishes why this container fails.
func (p *Presence) PublishReason(why string) {
	if p.incarnation != nil {
		p.incarnation.PublishReason(why)
	}
}

// Starts prepares for a start of the command: a readiness file that is older isn't its own.
func (p *Presence) Starts() {
	if p.opts.Ready.File != "" {
		p.opts.Ready.Since = order.FileTime()
	}
}

// Poll appends the descriptors of the readiness probe.
func (p *Presence) Poll(fds []unix.PollFd) []unix.PollFd {
	if p.prober != nil {
		fds = p.prober.Poll(fds)
	}
	return fds
}

// Publish publishes how far this container has come.
func (p *Presence) Publish(phase order.Phase, exitCode int) {
	if p.incarnation != nil {
		p.incarnation.Publish(phase, exitCode)
		p.complainIfUnpublished()
	}
}

// complainIfUnpublished prints once that the state can't be published. The command runs
// on: containers that depend on this one wait until a later write succeeds.
func (p *Presence) complainIfUnpublished() {
	if err := p.incarnation.Err(); err != nil && !p.publishComplained {
		p.publishComplained = true
		console.Say("publishing this container's state in " + strconv.Quote(p.opts.Dir) + ": " + err.Error() +
			": containers that depend on it wait until this succeeds: let the container's user write there, and free space on the volume")
	}
}

// StartProbing starts the readiness probe of the command.
func (p *Presence) StartProbing(env []string) {
	if p.incarnation != nil && p.opts.Ready.Kinds() > 0 {
		p.prober = order.NewProber(&p.opts.Ready, p.life.ProbeRunner(env))
	}
}

// StopProbing ends the readiness probe.
func (p *Presence) StopProbing() {
	if p.prober != nil {
		p.prober.Close()
		p.prober = nil
		p.withdrawUnready()
	}
}

// Act does what is due for the containers that depend on this one, and returns the time
// until the next call.
func (p *Presence) Act() time.Duration {
	p.publishStopping()
	pause := life.Forever
	if p.prober != nil {
		ready, next := p.prober.Act()
		if ready {
			p.StopProbing()
			p.Publish(order.Ready, 0)
		} else {
			pause = min(pause, life.Left(next))
			p.complainIfUnready()
		}
	}
	if next, will := p.incarnation.Act(); will {
		pause = min(pause, life.Left(next))
	}
	p.complainIfUnpublished()
	return pause
}

// reasonInterval is the shortest time between two reasons that this container publishes.
const reasonInterval = 5 * time.Second

// publishUnready publishes why the command isn't ready, when that has changed.
func (p *Presence) publishUnready(err error) {
	if err == nil || err.Error() == p.unready || time.Since(p.unreadySince) < reasonInterval {
		return
	}
	p.unready, p.unreadySince = err.Error(), time.Now()
	p.incarnation.PublishReason("its check " + p.opts.Ready.String() + " fails: " + p.unready)
}

// withdrawUnready withdraws the reason for which the command isn't ready. A later end
// has another one.
func (p *Presence) withdrawUnready() {
	if p.unready != "" {
		p.unready = ""
		p.incarnation.WithdrawReason()
	}
}

// complainIfUnready prints once why the readiness probe fails. No other log would have
// the reason: dependents see only that this container isn't ready.
func (p *Presence) complainIfUnready() {
	lasting, err := p.prober.Failure()
	p.publishUnready(err)
	if err == nil || p.unreadyComplained || lasting < report.ReminderTimes[0] {
		return
	}
	p.unreadyComplained = true
	console.Say("not ready after " + report.ReminderTimes[0].String() + ", and other containers wait for it: the last attempt of ready-when, or else of the readinessProbe: " + err.Error() +
		": correct the probe, or find out why the command doesn't become ready")
}

// publishStopping publishes that the stop signal has arrived.
func (p *Presence) publishStopping() {
	if !p.life.StopSignalCame() {
		return
	}
	switch p.incarnation.Phase() {
	case order.Preparing, order.Started, order.Ready:
		p.StopProbing()
		p.Publish(order.Stopping, 0)
	}
}

// BequeathLock prepares the exec of the command: it publishes that the command has
// started, and leaves the command the lock by which other containers see that it lives.
func (p *Presence) BequeathLock() {
	if p.incarnation == nil || p.incarnation.Phase() == order.Started {
		return
	}
	p.Publish(order.Started, 0)
	if err := p.incarnation.BequeathLock(); err != nil {
		console.Say("leaving the command the lock that tells other containers that it lives: " + err.Error() + ": raise the limit of open files")
	}
}
