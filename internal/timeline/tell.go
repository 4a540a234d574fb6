// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/internal/logreader"
	"github.com/entrypointer/entrypointer/internal/logs/events"
	"github.com/entrypointer/entrypointer/internal/podstatus"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// A witnessed is what all witnesses say of one pod.
type witnessed struct {
	*podstatus.Pod
	events  []corev1.Event
	records []logreader.Record
	isGone  bool
	now     time.Time
}

// tell tells of a pod.
func (t *Timeline) tell(w witnessed) Pod {
	told := Pod{Name: w.Name, Gone: w.isGone, Spans: scheduling(w.Object)}
	if !w.isGone {
		told.Created, told.scheduled = w.Object.CreationTimestamp.UTC(), w.scheduled()
		told.isPending = w.Object.Status.Phase == corev1.PodPending
	}
	if len(told.Spans) > 0 {
		told.add(Kubelet)
	}
	turns := pod.Turns(w.Object)
	specs := slices.Concat(w.Object.Spec.InitContainers, w.Object.Spec.Containers)
	for at, says := range w.Containers {
		before := preludeOf(specs[at])
		if step := slices.IndexFunc(turns, func(t pod.Turn) bool { return t.Step == says.Name }); step >= 0 {
			before = prelude{Waiting, []need{{cmp.Or(turns[step].After, podstatus.PodStart), turn}}}
		}
		c := t.tellContainer(&w, specs[at], says, before)
		for _, l := range c.Lives {
			told.add(l.Source)
		}
		for _, s := range c.Spans {
			told.add(s.source)
		}
		told.TraceID = cmp.Or(told.TraceID, traceOf(&c, &specs[at], string(w.Object.UID)))
		told.Containers = append(told.Containers, c)
	}
	return told
}

func (p *Pod) add(s Source) {
	if !slices.Contains(p.Sources, s) {
		p.Sources = append(p.Sources, s)
	}
}

// scheduled returns when a pod got its node, zero if that isn't known.
func (w *witnessed) scheduled() time.Time {
	if spans := scheduling(w.Object); len(spans) > 0 {
		return spans[0].To
	}
	return w.Object.CreationTimestamp.UTC()
}

// tellContainer tells of a container.
func (t *Timeline) tellContainer(w *witnessed, spec corev1.Container, says podstatus.Container, before prelude) Container {
	c := Container{Name: says.Name, Init: says.Init, Wrapped: says.Wrapped}
	var status *corev1.ContainerStatus
	statuses := slices.Concat(w.Object.Status.InitContainerStatuses, w.Object.Status.ContainerStatuses)
	if at := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name }); at >= 0 {
		status = &statuses[at]
	}
	c.Lives = w.lives(&says, status, before)
	var first time.Time
	for at := range c.Lives {
		l := &c.Lives[at]
		l.Spans = tidied(l.Spans, l.began)
		first = earliest(first, l.from())
		l.nameNeeds()
		if s := l.last(); s != nil && s.Outcome == cutOff {
			t.note("the end of a start of container %s of pod %s wasn't stored: the time until the next start isn't attributed", c.Name, w.Name)
		}
		if s := l.last(); says.Wrapped && s != nil && s.Kind == Alive && !s.open() {
			t.noteUnmeasured(before)
		}
		if says.Unanswered != "" && l.Source == Kubelet && at == len(c.Lives)-1 {
			t.note("a supervisor doesn't tell: %s", says.Unanswered)
		}
	}
	prepared := preparation{spec: spec, status: status, isInit: c.Init, scheduled: w.scheduled(), first: first}
	prepared.lacksStarts = t.noteUnknownStarts(w.Name, &c, status)
	prepared.readEvents(w.events)
	c.Spans = tidied(append(prepared.spans(), c.restarts(status)...), time.Time{})
	return c
}

// lives returns the starts of a container: those that the log service knows, and of the
// others what is left.
func (w *witnessed) lives(says *podstatus.Container, status *corev1.ContainerStatus, before prelude) (lives []Life) {
	var starts []start
	if status != nil {
		starts = startsOf(status, says)
	}
	for _, record := range w.records {
		if record.Container != says.Name || record.Began().Before(w.Object.CreationTimestamp.Add(-events.ClockSkew)) {
			continue // of another container, or made up
		}
		l := recorded(record, before, w.now)
		at := slices.IndexFunc(starts, func(s start) bool { return s.isOf(l.began) })
		switch {
		case len(l.Spans) == 0:
			continue // all of it is missing
		case at >= 0:
			if began, _, isStep := tektonStart(starts[at].message); isStep {
				l.tellEntrypoint(began)
			}
			starts[at].close(&l)
			starts = slices.Delete(starts, at, at+1)
		case w.isGone || slices.ContainsFunc(starts, func(s start) bool { return s.began.After(l.began) }):
			l.cut()
		}
		lives = append(lives, l)
	}
	for at := range starts {
		lives = append(lives, starts[at].life(before, w.now))
	}
	slices.SortStableFunc(lives, func(a, b Life) int { return a.began.Compare(b.began) })
	return lives
}

// noteUnmeasured says what would have told when the command started of a container that has
// ended. A step leaves Tekton's message instead of its status.
func (t *Timeline) noteUnmeasured(before prelude) {
	options := "the option logs or termination-message"
	if len(before.needs) == 1 && before.needs[0].isStep() {
		options = "the option logs"
	}
	t.note("%q of a container that has ended: nobody tells when its command started. With %s, the next run tells it exactly (docs/options.md)", lookOf(Alive).word, options)
}

// cutOff is the outcome of a span whose end wasn't stored.
const cutOff = "cutOff"

// cut ends a life whose end wasn't stored.
func (l *Life) cut() {
	if s := l.last(); s.open() {
		s.To, s.Outcome = s.From, cutOff
	}
}

// former returns the pods that are gone, as far as the log service knows them. The kubelet
// has started their containers one after the other, and so in the order of the pod.
func former(records []logreader.Record, label string) *podstatus.Pod {
	p := &podstatus.Pod{Name: records[0].Pod, Object: &corev1.Pod{}}
	if label == loglabels.TaskRun || label == loglabels.PipelineRun {
		p.Object.Labels = map[string]string{loglabels.TaskRun: "gone"}
	}
	for _, record := range records {
		if !slices.ContainsFunc(p.Containers, func(c podstatus.Container) bool { return c.Name == record.Container }) {
			p.Containers = append(p.Containers, podstatus.Container{Name: record.Container, Wrapped: true})
			p.Object.Spec.Containers = append(p.Object.Spec.Containers, corev1.Container{Name: record.Container})
		}
	}
	return p
}
