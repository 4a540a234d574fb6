// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// from returns when the first span of a life began.
func (l *Life) from() time.Time {
	if len(l.Spans) == 0 {
		return l.began
	}
	return l.Spans[0].From
}

// restarts returns the time between the lives of a container, and since the last one if the
// kubelet is to start it again. The kubelet's times are those of the containers, and the
// log service knows the supervisor in them.
func (c *Container) restarts(status *corev1.ContainerStatus) (spans []Span) {
	for at := range c.Lives {
		last := c.Lives[at].last()
		if last == nil || last.open() {
			continue
		}
		s := Span{Kind: Restarting, source: c.Lives[at].Source, From: last.To, coarseFrom: last.coarseTo}
		if last.Outcome == cutOff {
			s.Kind = Unattributed
		}
		switch isLast := at == len(c.Lives)-1; {
		case !isLast:
			next := &c.Lives[at+1]
			s.To = next.from()
			s.coarseTo = len(next.Spans) > 0 && next.Spans[0].coarseFrom
		case status == nil || status.State.Waiting == nil:
			continue // it runs, or won't be started again
		default:
			s.For = status.State.Waiting.Reason
		}
		spans = append(spans, s)
	}
	return spans
}

// noteUnknownStarts says which starts of a container nobody tells. It reports whether there
// are any.
func (t *Timeline) noteUnknownStarts(pod string, c *Container, status *corev1.ContainerStatus) bool {
	known := len(c.Lives)
	if status == nil || known == 0 || int(status.RestartCount)+1 <= known {
		return false
	}
	t.note("%d of the %d starts of container %s of pod %s are known: the time of the others isn't attributed, or counts as restarts", known, status.RestartCount+1, c.Name, pod)
	return true
}
