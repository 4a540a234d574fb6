// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package namespaces lets two things follow the annotation by which a namespace
// opts in:
//
//   - a label of the same name, for the API server selects webhooks by label
//     only. An admission webhook sets it in the same write that sets the
//     annotation, and a reconciler repairs what the webhook missed.
//   - a grant: the RoleBinding that lets the injector read pull secrets there.
//     The reconciler puts it there, repairs it, and removes it.
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

// optedIn is the label's only value. A namespace that didn't opt in has no label.
const optedIn = "true"

// rule decides which namespaces are labelled.
type rule struct {
	// system are namespaces that must never depend on the injector.
	system []string
}

func newRule(own string) rule {
	return rule{system: []string{metav1.NamespaceSystem, own}}
}

// wants says whether the namespace shall carry the label. An error tells the
// namespace's author why it doesn't.
func (r rule) wants(ns *corev1.Namespace) (bool, error) {
	switch value := ns.Annotations[pod.InjectAnnotation]; value {
	case "", "false":
		return false, nil
	case "true":
		if slices.Contains(r.system, ns.Name) {
			return false, fmt.Errorf("opting namespace %q in: the cluster and the injector itself depend on its pods; annotate another namespace", ns.Name)
		}
		return true, nil
	default:
		return false, fmt.Errorf("reading annotation %s of namespace %q: %q is neither \"true\" nor \"false\"", pod.InjectAnnotation, ns.Name, value)
	}
}

// follows says whether the label is as wanted.
func follows(ns *corev1.Namespace, want bool) bool {
	value, labelled := ns.Labels[labelKey]
	if want {
		return value == optedIn
	}
	return !labelled
}
