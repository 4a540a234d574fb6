// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"
	"strings"
	"time"
)

// An attempt is a try of a TaskRun. Each has a pod of its own.
type attempt struct{ from, to time.Time }

// stepPrefix begins the names of the containers that are a TaskRun's steps.
const stepPrefix = "step-"

// attribute tells what a pod spent time on while none of its containers did anything: from
// the start of its TaskRun, if it has one, to the completion of that.
func (p *Pod) attribute(a attempt) {
	spans := append(p.starting(), p.completing(a)...)
	switch begins := p.from(); {
	case a.from.IsZero() || begins.IsZero():
	case p.Gone:
		spans = append(spans, Span{Kind: Unattributed, source: TaskRun, From: a.from, To: begins, coarseFrom: true})
	default:
		spans = append(spans, Span{Kind: Requesting, source: TaskRun, From: a.from, To: p.Created, coarseFrom: true, coarseTo: true})
	}
	p.Spans = tidied(append(p.Spans, spans...), time.Time{})
	for _, s := range p.Spans {
		p.add(s.source)
	}
}

// starting returns when a pod that has a node had no container that did anything. Until its
// first container that is no init container has begun, the kubelet starts the pod.
func (p *Pod) starting() (spans []Span) {
	if p.scheduled.IsZero() {
		return nil
	}
	first, busy := p.busy()
	since := p.scheduled
	for _, s := range busy {
		if s.From.After(since) {
			gap := Span{Kind: Starting, source: Kubelet, From: since, To: s.From, coarseFrom: true, coarseTo: true}
			if !first.IsZero() && since.After(first) {
				gap.Kind = Unattributed
			}
			spans = append(spans, gap)
		}
		if s.open() {
			return spans
		}
		since = latest(since, s.To)
	}
	if p.isPending {
		spans = append(spans, Span{Kind: Starting, source: Kubelet, From: since, coarseFrom: true})
	}
	return spans
}

// busy returns the spans of the containers, in their order, and when the first container
// began that is no init container. An init container that outlasts that is a sidecar: it
// does nothing for the start of the pod.
func (p *Pod) busy() (first time.Time, spans []Span) {
	for _, c := range p.Containers {
		if !c.Init && len(c.Lives) > 0 {
			first = earliest(first, c.Lives[0].from())
		}
	}
	for at := range p.Containers {
		c := &p.Containers[at]
		for _, s := range c.all() {
			if !c.Init || first.IsZero() || !s.open() && !s.To.After(first.Add(second)) {
				spans = append(spans, s)
			}
		}
	}
	slices.SortStableFunc(spans, func(a, b Span) int { return a.From.Compare(b.From) })
	return first, spans
}

// completing returns the time from the end of the last step to the completion of the
// TaskRun: until the kubelet and Tekton's controller have noticed.
func (p *Pod) completing(a attempt) []Span {
	s := Span{Kind: Completing, source: TaskRun, To: a.to, coarseFrom: true, coarseTo: true}
	for at := range p.Containers {
		c := &p.Containers[at]
		if !strings.HasPrefix(c.Name, stepPrefix) {
			continue
		}
		for _, of := range c.all() {
			if of.open() {
				return nil
			}
			s.From = latest(s.From, of.To)
		}
	}
	if s.From.IsZero() || !a.to.After(s.From) {
		return nil
	}
	return []Span{s}
}

// latest returns the later of two moments.
func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
