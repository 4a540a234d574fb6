// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/internal/podstatus"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// second is the precision of the kubelet's times, which are rounded down.
const second = time.Second

// A start is a start of a container as the kubelet knows it.
type start struct {
	began, ended    time.Time // ended is zero while it runs
	exitCode        *int
	reason, message string
	supervisor      *podstatus.Supervisor
}

// startsOf returns the starts of a container that the kubelet remembers: the present one,
// and the one before.
func startsOf(status *corev1.ContainerStatus, says *podstatus.Container) (starts []start) {
	add := func(ended *corev1.ContainerStateTerminated, left *podstatus.Supervisor) {
		if ended == nil || ended.StartedAt.Unix() <= 0 {
			return // one that never ran has no start
		}
		code := int(ended.ExitCode)
		starts = append(starts, start{ended.StartedAt.UTC(), ended.FinishedAt.UTC(), &code, ended.Reason, ended.Message, left})
	}
	if says.Previous != nil {
		add(status.LastTerminationState.Terminated, says.Previous.Supervisor)
	}
	add(status.State.Terminated, says.Supervisor)
	if running := status.State.Running; running != nil {
		starts = append(starts, start{began: running.StartedAt.UTC(), supervisor: says.Supervisor})
	}
	return starts
}

// isOf reports whether a stream of the log service that began at a time is of this start.
// The runtime looks at the clock when the process runs already.
func (s *start) isOf(began time.Time) bool {
	return !began.Before(s.began.Add(-2*second)) && (s.ended.IsZero() || began.Before(s.ended.Add(second)))
}

// within moves a time that a container has told to where it can be.
func (s *start) within(at, now time.Time) time.Time {
	latest := now
	if !s.ended.IsZero() {
		latest = s.ended.Add(second)
	}
	switch {
	case at.IsZero():
		return at
	case at.Before(s.began):
		return s.began
	case at.After(latest):
		return latest
	}
	return at.UTC()
}

// life tells a start without the log service. The prelude is what precedes the command.
func (s *start) life(before prelude, now time.Time) Life {
	l := Life{began: s.began}
	switch began, reason, isStep := tektonStart(s.message); {
	case s.supervisor != nil:
		l.Source = Supervisor
		s.bySupervisor(&l, before, now)
	case isStep:
		l.Source = Tekton
		l.Reason = reason
		s.byKubelet(&l, Running)
		l.startStep(s.within(began, now), before)
	case before.kind != "":
		l.Source = Kubelet
		s.byKubelet(&l, Alive)
	default:
		l.Source = Kubelet
		s.byKubelet(&l, Running)
	}
	s.close(&l)
	return l
}

func (s *start) byKubelet(l *Life, kind Kind) {
	l.begin(kind, s.began).coarseFrom = true
	if !s.ended.IsZero() {
		l.end(s.ended).coarseTo = true
		l.last().ExitCode = s.exitCode
	}
}

// bySupervisor tells a start by the status of the supervisor.
func (s *start) bySupervisor(l *Life, before prelude, now time.Time) {
	says := s.supervisor
	started, finished, since := s.within(says.Started, now), s.within(says.Finished, now), s.within(says.WaitingSince, now)
	if kind := cmp.Or(kindOf(says), before.kind); kind != "" && started.Unix() != s.began.Unix() {
		first := l.begin(kind, s.began)
		first.coarseFrom, first.needs = true, before.needs
		if says.Phase == "Waiting" && !since.IsZero() {
			first.From, first.coarseFrom = since, false
		}
	}
	if !started.IsZero() {
		l.begin(Running, started)
	}
	if says.Phase == "Stopping" && !since.IsZero() && !started.IsZero() {
		l.begin(Stopping, since).For = waitedFor(says)
	}
	if !finished.IsZero() {
		if ended := l.end(finished); ended != nil { // a status can be of anybody's making
			ended.ExitCode = says.Command
		}
		kind := Ending
		if says.Phase == "Paused" {
			kind = Paused
		}
		l.begin(kind, finished)
	}
	if says.Phase == "Waiting" && l.last() != nil {
		l.last().For = waitedFor(says)
	}
}

// kindOf returns what a container does that hasn't started its command, "" if it has.
func kindOf(says *podstatus.Supervisor) Kind {
	if !says.Started.IsZero() {
		return ""
	}
	return map[string]Kind{"Waiting": Waiting, "BeforeStart": Hook, "Paused": Paused}[says.Phase]
}

func waitedFor(says *podstatus.Supervisor) string {
	var all []string
	for _, unmet := range says.WaitingFor {
		all = append(all, unmet.String())
	}
	return strings.Join(all, ", ")
}

// close completes a life by what the kubelet knows of its end.
func (s *start) close(l *Life) {
	if s.ended.IsZero() {
		return
	}
	if last := l.last(); last != nil && last.open() {
		last.To, last.coarseTo = s.ended, true
	}
	l.Reason, l.ExitCode = cmp.Or(l.Reason, s.reason), s.exitCode
	if s.supervisor != nil {
		l.Reason = cmp.Or(s.supervisor.Reason, s.reason)
	}
}

// startStep moves the start of a step's command to when Tekton's entrypoint says that it
// began. The step has waited until then.
func (l *Life) startStep(at time.Time, before prelude) {
	running := l.find(Running)
	if running == nil || !at.After(running.From) || !running.open() && at.After(running.To.Add(second)) {
		return
	}
	if !running.open() && at.After(running.To) {
		running.To = at
	}
	wait := Span{Kind: Waiting, From: running.From, To: at, coarseFrom: running.coarseFrom, needs: before.needs}
	running.From, running.coarseFrom = at, false
	l.Spans = append(l.Spans, wait)
}

// tellEntrypoint says how much of the run of a step was that of Tekton's entrypoint, until
// it started the command of the step. The supervisor starts the entrypoint, and so its
// events don't tell them apart: without the message, the run is the same, with both.
func (l *Life) tellEntrypoint(started time.Time) {
	running := l.find(Running)
	if running == nil || started.Sub(running.From) < time.Millisecond || !running.open() && started.After(running.To) {
		return
	}
	running.For = length(started.Sub(running.From), false) + " of it Tekton's entrypoint"
}

// A prelude is what a container does before its command starts, by its flags.
type prelude struct {
	kind  Kind
	needs []need
}

// preludeOf reads the flags of a supervisor.
func preludeOf(c corev1.Container) (p prelude) {
	has := func(prefixes ...string) bool {
		return slices.ContainsFunc(pod.Flags(c), func(flag string) bool {
			return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(flag, prefix) })
		})
	}
	alone := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
	for _, r := range pod.Relations(&alone) {
		switch r.Option {
		case "depends-on":
			p.needs = append(p.needs, need{r.On, r.Condition})
		case "wait-for":
			p.needs = append(p.needs, need{r.On, ""})
		}
	}
	switch {
	case len(p.needs) > 0 || has("-stdin-from=", "-wait-file=", "-wait-content=", "-wait-either="):
		p.kind = Waiting
	case has("-before-start="):
		p.kind = Hook
	case has("-pause=before-start"):
		p.kind = Paused
	}
	return p
}
