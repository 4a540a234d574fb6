// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"cmp"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// adviceOnScope tells the author of a namespace that opts in or out the limits of the
// annotation: it wraps no pod that must ask, and changes no pod that exists.
func adviceOnScope(now, before *corev1.Namespace, want pod.Scope) (advice []string) {
	had, _ := pod.NamespaceScope(before.Annotations) // with a mistake, none were wrapped
	if want == had || !changed(now, before, pod.InjectAnnotation) {
		return nil
	}
	stay, replaced := "stay as they are", "Deployments"
	switch want {
	case pod.NoPods:
		stay = "stay wrapped"
	case pod.OwnedPods:
		advice = append(advice, fmt.Sprintf("entrypointer: in namespace %q, TaskRuns and Knative Revisions are wrapped; another pod asks by its own annotation %s: \"true\" "+
			"(in a Deployment: in spec.template.metadata); to wrap all pods: %s", now.Name, pod.InjectAnnotation, annotate(now.Name, string(pod.AllPods))))
		if had != pod.AllPods {
			replaced = "Deployments whose templates ask"
		}
	}
	if before.Name == "" {
		return advice
	}
	return append(advice, fmt.Sprintf("entrypointer: pods that exist already %s; to replace those of %s: kubectl -n %s rollout restart deployment", stay, replaced, now.Name))
}

// adviceOnLabel tells the author of a manual change of the label to change the
// annotation.
func adviceOnLabel(now, before *corev1.Namespace, want pod.Scope) []string {
	if !setByHand(now, before) || follows(now, want) {
		return nil
	}
	asked, _ := pod.NamespaceScope(now.Labels) // labelKey is the annotation's key
	undone, toDo := fmt.Sprintf("set it to %q", want), "to opt out: "+annotate(now.Name, "")
	switch {
	case want == pod.NoPods:
		undone, toDo = "removed it", "to opt in: "+annotate(now.Name, string(cmp.Or(asked, pod.OwnedPods)))
	case asked != pod.NoPods:
		toDo = "to change both: " + annotate(now.Name, string(asked))
	}
	return []string{fmt.Sprintf("entrypointer: label %s is managed by entrypointer, which has %s again; the label follows the annotation of that name; %s", labelKey, undone, toDo)}
}

// adviceOnPrefix tells the author of a namespace the right prefix of an annotation such
// as entrypoint.dev/inject, in the write that sets it.
func adviceOnPrefix(now, before *corev1.Namespace) []string {
	return pod.Messages(pod.MisspeltPrefixes(written(now.Annotations, before.Annotations), written(now.Labels, before.Labels)))
}

// written returns the annotations or labels that a write adds or changes.
func written(now, before map[string]string) map[string]string {
	changed := maps.Clone(now)
	maps.DeleteFunc(changed, func(key, value string) bool {
		was, set := before[key]
		return set && was == value
	})
	return changed
}

// setByHand reports whether this write changes the label.
func setByHand(now, before *corev1.Namespace) bool {
	value, set := now.Labels[labelKey]
	was, wasSet := before.Labels[labelKey]
	return set != wasSet || value != was
}
