// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/pkg/conditions"
)

// A need is what a container waits for: a condition of another container, the turn of a
// step, or a URL or a file, which have no condition.
type need struct{ on, condition string }

// turn is the condition by which a step waits for the one before.
const turn = "turn"

func (n need) isStep() bool { return n.condition == turn }

// String says what is waited for.
func (n need) String() string {
	if n.condition == "" || n.isStep() {
		return n.on
	}
	return n.on + ":" + n.condition
}

// nameNeeds says in words what the spans of a life wait for.
func (l *Life) nameNeeds() {
	for at := range l.Spans {
		s := &l.Spans[at]
		if s.For != "" {
			continue
		}
		var all []string
		for _, n := range s.needs {
			all = append(all, n.String())
		}
		s.For = strings.Join(all, ", ")
	}
}

// handOffs returns the hand-offs between the containers of a pod.
func (p *Pod) handOffs() (all []HandOff) {
	for _, c := range p.Containers {
		for at := range c.Lives {
			if h, is := p.handOffTo(&c.Lives[at]); is {
				h.Pod, h.To = p.Name, c.Name
				all = append(all, h)
			}
		}
	}
	return all
}

// handOffTo returns the hand-off to the command of a life: from the moment at which the
// last of its needs was met.
func (p *Pod) handOffTo(l *Life) (h HandOff, is bool) {
	waited, running := l.find(Waiting), l.find(Running)
	if waited == nil || running == nil || waited.open() || running.coarseFrom || running.From.Before(waited.To) {
		return h, false
	}
	m, areContainers := p.meeting(waited.needs, running.From)
	if !areContainers {
		return h, false
	}
	// The wait may end before a step's container does, because Tekton's entrypoint, which has
	// told the next step, has work left. And nobody records when a container became ready.
	over := cmp.Or(waited.done, waited.To)
	if isLate := m.at.After(over); waited.Outcome == "met" && (!m.known || m.coarse || isLate) {
		m.at, m.coarse = over, false
	} else if !m.known {
		return h, false
	}
	h.From, h.Milliseconds = m.of, max(0, running.From.Sub(m.at).Milliseconds())
	if m.coarse {
		h.Precision = wholeSeconds
	}
	return h, true
}

// A meeting is the moment at which the last of several needs was met.
type meeting struct {
	at     time.Time
	of     string // the container, or all of them if at isn't known
	coarse bool
	known  bool
}

// meeting returns when needs were met before a moment. It reports false unless all of them
// are containers of the pod.
func (p *Pod) meeting(needs []need, before time.Time) (m meeting, areContainers bool) {
	var names []string
	m.known = true
	for _, n := range needs {
		other := p.container(n.on)
		if other == nil {
			return m, false
		}
		names = append(names, n.on)
		at, isCoarse := other.reached(n.condition, before)
		m.known = m.known && !at.IsZero()
		if at.After(m.at) {
			m.at, m.of, m.coarse = at, n.on, isCoarse
		}
	}
	if !m.known {
		m.of = strings.Join(names, ", ")
	}
	return m, len(names) > 0
}

func (p *Pod) container(name string) *Container {
	for at := range p.Containers {
		if p.Containers[at].Name == name {
			return &p.Containers[at]
		}
	}
	return nil
}

// reached returns when a container met a condition, as far as a life before a moment says.
func (c *Container) reached(condition string, before time.Time) (at time.Time, coarse bool) {
	for i := range c.Lives {
		l := &c.Lives[i]
		running := l.find(Running)
		if running == nil || running.From.After(before) {
			continue
		}
		last := running
		if stopping := l.find(Stopping); stopping != nil {
			last = stopping
		}
		switch {
		case condition == string(conditions.Started):
			at, coarse = running.From, running.coarseFrom
		case condition == turn, conditions.Ends.Has(condition):
			at, coarse = last.To, last.coarseTo
		}
	}
	return at, coarse
}
