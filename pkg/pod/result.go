// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"maps"
	"slices"
	"strings"

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

// withStatus sets the status annotation, which holds the outcome, on the result's pod. A
// pod that is NotOurs gets the annotation only if it has annotations or labels in our
// domain: its author may wonder why the pod isn't wrapped.
func (r Result) withStatus(version string) Result {
	status := r.status()
	if version != "" {
		status += versionInStatus + version
	}
	if r.Pod.Annotations[StatusAnnotation] == status || r.Outcome == MirrorPod || r.Outcome == NotOurs && !annotation.Mentioned(r.Pod.Annotations) && !annotation.Mentioned(r.Pod.Labels) {
		return r
	}
	pod := *r.Pod
	pod.Annotations = maps.Clone(pod.Annotations)
	if !annotation.Set(&pod, StatusAnnotation, status) {
		r.Warnings = append(r.Warnings, tooManyAnnotations(StatusAnnotation))
	}
	r.Pod = &pod
	return r
}

// orderInStatus precedes the order in the status annotation, and versionInStatus the
// version at its end.
const (
	orderInStatus   = "; order: "
	versionInStatus = "; version: "
)

// WithoutVersion returns the value of a status annotation without the version of the
// injector, which says nothing about the pod.
func WithoutVersion(status string) string {
	if at := strings.LastIndex(status, versionInStatus); at >= 0 {
		return status[:at]
	}
	return status
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

// afterAll warns if the pod's status lists this newly wrapped container as unwrapped.
// That happens if an API server asks again and the registry has answered in the meantime.
// The status could be forged, so it decides nothing.
func afterAll(pod *corev1.Pod, container string) []Warning {
	status := WithoutVersion(pod.Annotations[StatusAnnotation])
	decided, _, _ := strings.Cut(status, orderInStatus)
	_, names, _ := strings.Cut(decided, ": ")
	partly := strings.HasPrefix(status, string(PartlyInjected))
	unwrapped := status == string(LookupWaived) || partly && slices.Contains(strings.Split(names, ","), container)
	if !unwrapped {
		return nil
	}
	return []Warning{warning(ReasonLookupRecovered, "container %q runs under its supervisor after all: the second lookup of its image succeeded", container)}
}

// Mentions reports whether there are annotations in our domain.
func Mentions(annotations map[string]string) bool { return annotation.Mentioned(annotations) }
