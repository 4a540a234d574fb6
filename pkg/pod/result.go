// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// Result describes the decision on an admitted pod.
type Result struct {
	Outcome Outcome
	// Owner is empty if the pod is NotOurs.
	Owner Owner
	// Pod is the pod to admit: a changed copy, or the original pod if there is nothing to
	// change.
	Pod *corev1.Pod
	// Delivery is the way in which the supervisor gets into the pod, empty for a pod
	// without it.
	Delivery Delivery
	// Wrapped names the containers that this call has wrapped.
	Wrapped []string
	// Unwrapped names the containers that run unwrapped, because the lookups of their
	// images failed and the Policy waives failed lookups.
	Unwrapped []string
	// Order is the graph of the containers that wait for each other, in its short form,
	// empty without such containers.
	Order string
	// Additions names the fields in which others have added to our init containers, as the
	// API calls them, without those that were repaired: they may tell why an API server has
	// asked again.
	Additions []string
	// Warnings are for the creator of the pod. [Messages] formats them for an API server.
	Warnings []Warning
}

// finished returns the result with its status and its warnings. A pod that is NotOurs gets the
// status annotation, which holds the outcome, only if it has annotations or labels in our
// domain: its author may wonder why the pod isn't wrapped.
func (w *wrapping) finished(r Result) Result {
	w.warn(w.pod.labelsWithoutEffect()...)
	r.Owner = w.kind.Owner
	status := r.status()
	if w.Version != "" {
		status += versionInStatus + w.Version
	}
	unchanged := r.Pod.Annotations[StatusAnnotation] == status || r.Outcome == MirrorPod || r.Outcome == NotOurs && len(w.pod.annotations)+len(w.pod.labels) == 0
	if !unchanged {
		pod := *r.Pod
		pod.Annotations = maps.Clone(pod.Annotations)
		if !annotation.Set(&pod, StatusAnnotation, status) {
			w.warn(tooManyAnnotations(StatusAnnotation))
		}
		r.Pod = &pod
	}
	r.Warnings = bounded(w.warnings)
	return r
}

// labelsWithoutEffect warns of labels in our domain: a pod sets options by annotations
// only.
func (p *parsedPod) labelsWithoutEffect() (warnings []Warning) {
	for _, key := range p.labels {
		if _, annotated := p.Annotations[key]; annotated {
			continue
		}
		warnings = append(warnings, warning(ReasonLabelHasNoEffect, "label %s has no effect on a pod: set the annotation %s", key, key))
	}
	return warnings
}

// status returns the value of the status annotation.
func (r Result) status() string {
	var order string
	if r.Order != "" {
		order = orderInStatus + r.Order
	}
	switch r.Outcome {
	case Injected, AlreadyInjected:
		return fmt.Sprintf("%s by %s", Injected, r.Delivery) + order
	case PartlyInjected:
		return fmt.Sprintf("%s by %s: %s", PartlyInjected, r.Delivery, text.Listed(r.Unwrapped, ",")) + order
	case NotOurs:
		return fmt.Sprintf("%s: the pod doesn't ask by %s: \"true\"", NotOurs, InjectAnnotation)
	default:
		return string(r.Outcome)
	}
}

// Mentions reports whether there are annotations in our domain.
func Mentions(annotations map[string]string) bool { return annotation.Mentioned(annotations) }
