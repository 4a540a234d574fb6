// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// optedInAt returns since when the namespace has had its annotation, as the API server
// remembers who has set which field; zero if it is unknown.
func optedInAt(namespace *corev1.Namespace) (at metav1.Time) {
	for _, m := range namespace.ManagedFields {
		var fields struct {
			Metadata struct {
				Annotations map[string]json.RawMessage `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if m.FieldsV1 == nil || m.Time == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, set := fields.Metadata.Annotations["f:"+pod.InjectAnnotation]; set && at.Before(m.Time) {
			at = *m.Time
		}
	}
	return at
}

// decisionOn says what was decided on a pod, by the pod itself: the commands of its
// containers, and its status.
func (q *inquiry) decisionOn(p *corev1.Pod) *Decision {
	d := &Decision{Reason: q.reasonOf(p)}
	if !slices.ContainsFunc(p.Spec.Containers, pod.IsWrapped) {
		return d
	}
	status, _, _ := strings.Cut(pod.WithoutVersion(p.Annotations[pod.StatusAnnotation]), ";")
	_, delivery, _ := strings.Cut(status, " by ")
	delivery, _, _ = strings.Cut(delivery, ":")
	d.Delivery = pod.Delivery(delivery)
	// The settings of an existing pod are those of its own annotations, and of the
	// namespace as it is now.
	_, explained, err := q.explainer().Explain(q.Namespace, p)
	for index, c := range p.Spec.Containers {
		container := Container{Name: c.Name, Wrapped: pod.IsWrapped(c), Image: c.Image}
		if err == nil && len(explained) > 0 {
			container.explain(&explained[index])
		}
		switch _, names, _ := strings.Cut(status, ": "); {
		case container.Wrapped:
			container.Why = ""
		case d.Reason == Reason(pod.PartlyInjected) && slices.Contains(strings.Split(names, ","), c.Name):
			container.Why, container.Options = "its image couldn't be looked up", nil
		case container.Why == "":
			container.Why, container.Options = "entrypointer left it alone, for a reason that isn't known here", nil
		}
		d.Containers = append(d.Containers, container)
	}
	return d
}

// explain sets the options of a container, and why it isn't wrapped.
func (c *Container) explain(e *pod.Explanation) {
	c.Why, c.Options = e.Why, nil
	for _, s := range e.Settings {
		c.Options = append(c.Options, Option{s.Option, s.Value, s.Source})
	}
}

// explainer returns an injector that knows what the user may know.
func (q *inquiry) explainer() *pod.Injector {
	operators, namespace := q.operators, q.namespace
	if operators == nil {
		operators = &config.Config{}
	}
	if namespace == nil {
		namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: q.Namespace}}
	}
	return operators.Injector(namespace)
}

// reasonOf says why a pod that exists is as it is: its structure counts, and then its
// status, which could be forged.
func (q *inquiry) reasonOf(p *corev1.Pod) Reason {
	status := statusOf(p)
	wrapped := slices.ContainsFunc(p.Spec.Containers, pod.IsWrapped)
	switch {
	case status == Reason(pod.PartlyInjected):
		return status
	case wrapped:
		return Reason(pod.Injected)
	case status != "" && status != Reason(pod.Injected) && status != pod.Undecided:
		return status
	default:
		return q.whyNoStatus(p)
	}
}

// statusOf returns the first word of a pod's status, "" without one.
func statusOf(p *corev1.Pod) Reason {
	words := strings.FieldsFunc(p.Annotations[pod.StatusAnnotation], func(r rune) bool { return r == ' ' || r == ':' || r == ';' })
	if len(words) == 0 {
		return ""
	}
	return Reason(words[0])
}

// whyNoStatus says why the injector has decided nothing on a pod.
func (q *inquiry) whyNoStatus(p *corev1.Pod) Reason {
	if q.namespace == nil {
		return Unexplained
	}
	scope, err := pod.NamespaceScope(q.namespace.Annotations)
	switch {
	case q.namespace.Name == metav1.NamespaceSystem || q.namespace.Name == objects.InjectorNamespace:
		return NamespaceExcluded // whatever its annotations say
	case err != nil || scope == pod.NoPods:
		return NamespaceNotOptedIn
	case !p.CreationTimestamp.IsZero() && p.CreationTimestamp.Before(&q.optedIn):
		return OlderThanOptIn
	case q.namespace.Labels[pod.InjectAnnotation] != string(scope):
		return LabelMissing
	case p.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return Reason(pod.MirrorPod)
	default:
		return DoesNotAsk
	}
}

// stateOf says what the kubelet says of a container.
func stateOf(p *corev1.Pod, container string) string {
	at := slices.IndexFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
	if at < 0 {
		return ""
	}
	switch s := p.Status.ContainerStatuses[at].State; {
	case s.Running != nil && !p.Status.ContainerStatuses[at].Ready:
		return "running, not ready"
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return fmt.Sprintf("ended with %d (%s)", s.Terminated.ExitCode, s.Terminated.Reason)
	case s.Waiting != nil:
		return "waiting: " + s.Waiting.Reason
	default:
		return ""
	}
}
