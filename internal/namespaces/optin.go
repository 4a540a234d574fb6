// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package namespaces derives two things from the annotation by which a namespace opts in:
//
//   - a label of the same name, because the API server selects webhooks by label only.
//     An admission webhook sets the label in the same write that sets the annotation, and
//     a reconciler repairs what the webhook missed.
//   - a grant: the RoleBinding that lets the injector read pull secrets there. The
//     reconciler creates, repairs and removes it.
package namespaces

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// labelKey is the label that follows the annotation of the same name.
const labelKey = pod.InjectAnnotation

// rule decides which namespaces are labelled.
type rule struct {
	// system are namespaces that must never depend on the injector.
	system []string
}

func newRule(own string) rule {
	return rule{system: []string{metav1.NamespaceSystem, own}}
}

// wants returns the scope for the namespace's label. An error tells the namespace's
// author why there is none.
func (r rule) wants(ns *corev1.Namespace) (pod.Scope, error) {
	scope, err := pod.NamespaceScope(ns.Annotations)
	switch {
	case err != nil:
		return pod.NoPods, fmt.Errorf("reading the annotations of namespace %q: %w; to opt in: %s", ns.Name, err, annotate(ns.Name, "true"))
	case scope != pod.NoPods && slices.Contains(r.system, ns.Name):
		return pod.NoPods, fmt.Errorf("opting namespace %q in: the cluster and the injector itself depend on its pods; annotate another namespace", ns.Name)
	default:
		return scope, nil
	}
}

// annotate returns the command that sets a namespace's annotation, or removes it if the
// value is "".
func annotate(namespace, value string) string {
	if value == "" {
		return fmt.Sprintf("kubectl annotate namespace %s %s-", namespace, pod.InjectAnnotation)
	}
	return fmt.Sprintf("kubectl annotate --overwrite namespace %s %s=%s", namespace, pod.InjectAnnotation, value)
}

// labelled returns the scope in a namespace's label, which the API server evaluates.
func labelled(ns *corev1.Namespace) pod.Scope { return pod.Scope(ns.Labels[labelKey]) }

// follows reports whether the label is as wanted.
func follows(ns *corev1.Namespace, want pod.Scope) bool {
	_, set := ns.Labels[labelKey]
	return labelled(ns) == want && set == (want != pod.NoPods)
}
