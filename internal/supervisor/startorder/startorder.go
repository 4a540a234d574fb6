// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package startorder waits for other containers and for servers before the command's start.
package startorder

import (
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/output"
	"github.com/entrypointer/entrypointer/internal/supervisor/pipe"
	"github.com/entrypointer/entrypointer/internal/supervisor/presence"
	"github.com/entrypointer/entrypointer/internal/supervisor/report"
	"github.com/entrypointer/entrypointer/internal/supervisor/stopwhen"
)

// A Gate opens once all that the command waits for is there.
type Gate struct {
	life      *life.Life
	opts      *Options
	heartbeat bool
	presence  *presence.Presence
	pipes     *pipe.Pipes
	helper    *stopwhen.Helper
	targets   order.Targets // while they are probed
	awaited   time.Duration // how long Await has waited
}

// New returns the gate that the options ask for.
func New(l *life.Life, opts *Options, heartbeat bool, p *presence.Presence, pipes *pipe.Pipes, h *stopwhen.Helper) *Gate {
	g := &Gate{life: l, opts: opts, heartbeat: heartbeat, presence: p, pipes: pipes, helper: h}
	if len(opts.WaitFor) > 0 {
		l.Add(g)
	}
	return g
}

// Act has nothing to do: Await serves the targets.
func (g *Gate) Act() time.Duration { return life.Forever }

// Poll appends the descriptors of the targets' probes.
func (g *Gate) Poll(fds []unix.PollFd) []unix.PollFd { return g.targets.Poll(fds) }

// lastLook is the time for a wait after hooks if the wait before has taken all of its
// time: as long as a probe of a target may take.
const lastLook = time.Second

// Await waits for the containers that this one depends on, and for targets
// that run without a supervisor. All calls share one time limit.
func (g *Gate) Await() error {
	if len(g.opts.DependsOn) == 0 && len(g.opts.WaitFor) == 0 && !g.pipes.IsPiped() {
		return nil
	}
	needs := g.newNeeds()
	defer g.closeNeeds(needs)
	needs.AddPipeEnds(g.pipes.Ends())
	limit := g.opts.Timeout
	if limit > 0 && g.awaited > 0 {
		limit = max(limit-g.awaited, lastLook)
	}
	waiter := await.NewWaiter(needs, limit)
	defer waiter.Close()
	var state await.State
	var end syscall.Signal
	for _, d := range g.opts.DependsOn {
		g.life.Event(output.EventDependsOn, d.String(), 0)
	}
	log := report.WaitLog{Began: time.Now()}
	err := g.life.Until(func() time.Duration {
		if end = g.helper.PendingEnd(); end != 0 {
			return life.Done
		}
		pause := needs.try()
		state = waiter.Look()
		g.reportUnmet(needs.unmet(), &log)
		if state != await.Waiting {
			return life.Done
		}
		return min(pause, waiter.Pause())
	})
	g.life.Waiting = report.WaitStatus{}
	g.awaited += time.Since(log.Began)
	switch {
	case err != nil:
		return err
	case end != 0:
		return outcome.StoppedBy(end, "the wait for "+report.DescribeUnmet(needs.unmet()))
	}
	g.life.Event(output.EventWaited, "", int(state))
	switch state {
	case await.Failed:
		return g.dependencyFailed(needs.unmet())
	case await.TimedOut:
		return outcome.New(outcome.CodeTimeout, outcome.Timeout, "waiting for "+report.DescribeUnmet(needs.unmet())+": not met after "+g.opts.Timeout.String()+
			": the command was not started: check them, or raise depends-on-timeout")
	}
	return nil
}

// reportUnmet publishes and prints what this container waits for.
func (g *Gate) reportUnmet(unmet []order.Unmet, log *report.WaitLog) {
	if len(unmet) == 0 {
		return
	}
	g.life.ShowWait(report.Waiting, report.WaitStatus{Since: log.Began, Unmet: unmet})
	for _, line := range log.DueLines(time.Since(log.Began), unmet) {
		console.Say(line)
	}
}

// dependencyFailed is the failure of a command that isn't started because a dependency
// has failed for good. It tells the containers that depend on this one which container
// that was.
func (g *Gate) dependencyFailed(unmet []order.Unmet) error {
	failed := report.OnlyFailed(unmet)
	g.presence.PublishReason(failed[0].Culprit())
	return outcome.New(outcome.CodeDependency, outcome.DependencyFailure, "waiting for "+report.DescribeUnmet(failed)+
		", which is not restarted: the command was not started: see the log of container "+strconv.Quote(failed[0].Name()))
}

// needs are a Waiter's source: the dependencies and targets that the command's
// start needs.
type needs struct {
	*order.Dependencies
	targets order.Targets
}

func (g *Gate) newNeeds() *needs {
	c := &needs{order.NewDependencies(g.opts.DependsOn, g.heartbeat), order.NewTargets(g.opts.WaitFor)}
	g.targets = c.targets
	return c
}

// Look returns Met once all dependencies are met and all targets have succeeded.
func (c *needs) Look() (await.State, error) {
	state, err := c.Dependencies.Look()
	if state == await.Met && len(c.targets.Unmet()) > 0 {
		state = await.Waiting
	}
	return state, err
}

// try continues the probes of the targets, and returns the time until the next call.
func (c *needs) try() time.Duration {
	next := c.targets.Act()
	if next.IsZero() {
		return life.Forever
	}
	return life.Left(next)
}

// unmet returns the unmet dependencies and targets.
func (c *needs) unmet() []order.Unmet { return append(c.Unmet(), c.targets.Unmet()...) }

func (g *Gate) closeNeeds(c *needs) {
	c.targets.Close()
	g.targets = nil
}
