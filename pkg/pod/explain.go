// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/between"
)

// An Explanation says what an [Injector] does with one container of a pod, and why.
type Explanation struct {
	Container string `json:"container"`
	// Why says why the container runs without the supervisor, "" if it is to be wrapped.
	Why string `json:"why,omitempty"`
	// Settings are the options of a container that is to be wrapped.
	Settings []Setting `json:"settings,omitempty"`
}

// A Setting is the value of an option, and where it is set.
type Setting struct {
	Option string `json:"option"`
	Value  string `json:"value"`
	// Source names the annotation, and the namespace or the operator if it isn't the pod's:
	// `annotation entrypointer.dev/timeout of namespace "team-a"`. It is "" for a value that
	// applies without any setting.
	Source string `json:"source,omitempty"`
}

// Explain explains the decision on a pod, as it will be made or as it was. The Injector
// needs no Lookup for that: the images of the pod aren't looked up. An error that is a
// *Refusal is that of [Injector.Check].
func (i *Injector) Explain(namespace string, pod *corev1.Pod) (Outcome, []Explanation, error) {
	parsed := parse(pod)
	selected, kind, outcome, err := i.classify(parsed)
	if err != nil || outcome != "" {
		return outcome, nil, err
	}
	w := &wrapping{Injector: i, namespace: namespace, pod: parsed, kind: kind}
	explanations := make([]Explanation, len(pod.Spec.Containers))
	for index, c := range pod.Spec.Containers {
		e := &explanations[index]
		e.Container = c.Name
		if !slices.Contains(selected, index) {
			e.Why = kind.whyUnwrapped(c)
			continue
		}
		settings, err := w.settings(parsed.forContainer(c.Name, kind))
		if err != nil {
			return "", nil, err
		}
		for _, s := range settings {
			e.Settings = append(e.Settings, Setting{s.Name, s.value, s.source()})
		}
	}
	return Injected, explanations, nil
}

// WithExplanation returns a pod with its explanation in [ExplanationAnnotation], or the pod
// itself if its annotations have no room for that.
func WithExplanation(pod *corev1.Pod, explanations []Explanation) (*corev1.Pod, error) {
	text, err := json.Marshal(explanations)
	if err != nil {
		return nil, fmt.Errorf("explaining the decision: %w", err)
	}
	explained := *pod
	explained.Annotations = maps.Clone(pod.Annotations)
	if !annotation.Set(&explained, ExplanationAnnotation, string(text)) {
		return pod, nil
	}
	return &explained, nil
}

// ExplanationOf returns the explanation that a pod has in [ExplanationAnnotation], nil
// without one.
func ExplanationOf(pod *corev1.Pod) (explanations []Explanation, _ error) {
	text, is := pod.Annotations[ExplanationAnnotation]
	if !is {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &explanations); err != nil {
		return nil, fmt.Errorf("reading annotation %s: %w", ExplanationAnnotation, err)
	}
	return explanations, nil
}

// A Relation is what a container has to do with another one, or with a URL, by an option.
type Relation = between.Relation

// Relations returns what the wrapped containers of a pod have to do with each other, as
// their supervisors have it on their command lines.
func Relations(pod *corev1.Pod) (all []Relation) {
	for _, c := range pod.Spec.Containers {
		all = append(all, between.RelationsOf(c.Name, Flags(c))...)
	}
	return all
}

// whyUnwrapped says why a container of a pod of this kind isn't wrapped.
func (k *Kind) whyUnwrapped(c corev1.Container) string {
	switch {
	case k.wraps(c):
		return "another webhook adds and manages it (proxy-containers in the operator's configuration); a pod that asks can name it in annotation " + ContainersAnnotation
	case k.byName:
		return "annotation " + ContainersAnnotation + " doesn't name it"
	case slices.Contains(k.Own, c.Name):
		return "it is " + string(k.Owner) + "'s own"
	case k.Steps:
		return "it is a sidecar of the TaskRun, and only steps are wrapped"
	default:
		return "it isn't one of the containers that are wrapped in pods of " + string(k.Owner) + "'s"
	}
}
