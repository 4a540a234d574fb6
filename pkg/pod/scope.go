// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import "fmt"

// A Scope determines which pods of a namespace are wrapped. It is the value of the
// namespace's [InjectAnnotation], and of the label that follows the annotation.
type Scope string

// The scopes.
const (
	NoPods Scope = ""
	// OwnedPods are the pods of TaskRuns and Revisions, and other pods that ask by their
	// own annotation.
	OwnedPods Scope = "true"
	// AllPods are all pods, without asking.
	AllPods Scope = "all"
)

// NamespaceScope parses the scope in a namespace's annotations. An error lists the
// values.
func NamespaceScope(annotations map[string]string) (Scope, error) {
	value, set := annotations[InjectAnnotation]
	switch scope := Scope(value); {
	case !set || value == "false":
		return NoPods, nil
	case scope == OwnedPods || scope == AllPods:
		return scope, nil
	default:
		return NoPods, fmt.Errorf(`annotation %s: %q is none of "true" (TaskRuns, Knative Revisions, and pods that ask), "all" (every pod) and "false"`, InjectAnnotation, value)
	}
}
