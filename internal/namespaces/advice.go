// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// adviceOnScope tells the author of a namespace that opts in or out the limits of the
// annotation: it wraps no pod that must ask, and changes no pod that exists.
func adviceOnScope(now, before *corev1.Namespace, want pod.Scope) (advice []string) {
	had, err := pod.NamespaceScope(before.Annotations)
	if err == nil && want == had || !changed(now, before, pod.InjectAnnotation) {
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
	const managed = "entrypointer: label " + labelKey + " is managed by entrypointer, which has %s again; the label follows the annotation of that name; "
	if want == pod.NoPods {
		return []string{fmt.Sprintf(managed, "removed it") + "to opt in: " + annotate(now.Name, string(pod.OwnedPods))}
	}
	return []string{fmt.Sprintf(managed, fmt.Sprintf("set it to %q", want)) + "to opt out: " + annotate(now.Name, "")}
}

// adviceOnPrefix tells the author of a namespace the right prefix of an annotation such
// as entrypoint.dev/inject. The webhook's match condition has the same rule.
func adviceOnPrefix(now, before *corev1.Namespace) []string {
	for _, key := range slices.Sorted(maps.Keys(now.Annotations)) {
		misspelled := strings.HasPrefix(key, "entrypoint") && strings.HasSuffix(key, "/inject") && key != pod.InjectAnnotation
		if misspelled && changed(now, before, key) {
			return []string{fmt.Sprintf("entrypointer: annotation %s is unknown and has no effect; did you mean %q?", key, pod.InjectAnnotation)}
		}
	}
	return nil
}

// setByHand reports whether this write changes the label.
func setByHand(now, before *corev1.Namespace) bool {
	value, set := now.Labels[labelKey]
	was, wasSet := before.Labels[labelKey]
	return set != wasSet || value != was
}
