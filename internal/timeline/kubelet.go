// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/objects"
)

// mostEvents bounds the Events that are read of a namespace.
const mostEvents = 5000

// eventsOf reads Kubernetes' Events of pods, by the UIDs of the pods.
func (r *Reader) eventsOf(ctx context.Context, pods []*corev1.Pod) (all map[string][]corev1.Event, more bool, err error) {
	selector := "involvedObject.kind=Pod"
	if len(pods) == 1 {
		selector += ",involvedObject.name=" + pods[0].Name
	}
	all = map[string][]corev1.Event{}
	more, err = objects.Each(ctx, func() *rest.Request {
		return r.REST.Get().AbsPath("/api/v1/namespaces", r.Namespace, "events").Param("fieldSelector", selector)
	}, mostEvents, func(e corev1.Event) {
		uid := string(e.InvolvedObject.UID)
		all[uid] = append(all[uid], e)
	})
	if err != nil {
		return nil, false, fmt.Errorf("listing the Events in namespace %q: %w", r.Namespace, err)
	}
	return all, more, nil
}

// scheduling returns how long a pod has waited for a node.
func scheduling(p *corev1.Pod) []Span {
	s := Span{Kind: Scheduling, source: Kubelet, From: p.CreationTimestamp.UTC(), coarseFrom: true, coarseTo: true}
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type != corev1.PodScheduled:
		case c.Status == corev1.ConditionTrue:
			s.To = c.LastTransitionTime.UTC()
		default:
			s.For = strings.TrimPrefix(c.Reason+": "+c.Message, ": ")
		}
	}
	if s.From.Unix() <= 0 || p.Spec.NodeName != "" && s.open() {
		return nil // nobody says when
	}
	return tidied([]Span{s}, s.From)
}

// pulled is how the kubelet says how long a pull took, with the wait for others.
var pulled = regexp.MustCompile(`^Successfully pulled image .* \(([0-9.hmsµ]+) including waiting\)`)

// A preparation is what the kubelet does for a container outside of its lives.
type preparation struct {
	spec   corev1.Container
	status *corev1.ContainerStatus // nil before the kubelet says something
	isInit bool
	// scheduled is when the pod got its node, and first when the container was first started,
	// as far as is known.
	scheduled, first time.Time
	lacksStarts      bool // the container was started before that
	// pulling is when the first pull began, and had when the image was first there.
	pulling, had time.Time
	pulls        []Span
}

// longestPull bounds what an Event, which a tenant may write, says about a pull.
const longestPull = 24 * time.Hour

// readEvents reads the Events of the pod.
func (p *preparation) readEvents(events []corev1.Event) {
	field := "spec.containers{" + p.spec.Name + "}"
	if p.isInit {
		field = "spec.initContainers{" + p.spec.Name + "}"
	}
	for _, e := range events {
		at := cmp.Or(e.FirstTimestamp.Time, e.EventTime.Time).UTC()
		switch {
		case e.InvolvedObject.FieldPath != field, at.Unix() <= 0:
		case e.Reason == "Pulling":
			p.pulling = earliest(p.pulling, at)
		case e.Reason == "Pulled":
			p.had = earliest(p.had, at)
			match := pulled.FindStringSubmatch(e.Message)
			if match == nil {
				continue // the image was there
			}
			if took, err := time.ParseDuration(match[1]); err == nil && took >= 0 && took < longestPull {
				p.pulls = append(p.pulls, Span{Kind: Pulling, source: Events, From: at.Add(-took), To: at, For: p.spec.Image, coarseFrom: true, coarseTo: true})
			}
		}
	}
}

// spans returns the pulls, the creation, and what is the matter if the container has never
// run. Without its first start, nobody knows how long the creation took.
func (p *preparation) spans() []Span {
	spans := p.pulls
	switch since := cmp.Or(p.had, p.scheduled); {
	case p.lacksStarts && !since.IsZero():
		spans = append(spans, Span{Kind: Unattributed, source: Kubelet, From: since, To: p.first, coarseFrom: true, coarseTo: true})
	case p.lacksStarts:
	case !p.first.IsZero() && !p.had.IsZero():
		spans = append(spans, Span{Kind: Creating, source: Events, From: p.had, To: p.first, coarseFrom: true, coarseTo: true})
	case !p.first.IsZero() || p.status == nil || p.status.State.Waiting == nil:
	case !p.pulling.IsZero() && p.had.IsZero():
		spans = append(spans, Span{Kind: Pulling, source: Events, From: p.pulling, For: p.spec.Image, Outcome: p.status.State.Waiting.Reason, coarseFrom: true})
	case !p.scheduled.IsZero() && p.status.State.Waiting.Reason != "PodInitializing":
		spans = append(spans, Span{Kind: Creating, source: Kubelet, From: p.scheduled, For: p.status.State.Waiting.Reason, coarseFrom: true})
	}
	return spans
}
