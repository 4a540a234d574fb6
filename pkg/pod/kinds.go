// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Owner names the kind of pods to which a wrapped pod belongs.
type Owner string

// The owners.
const (
	Tekton  Owner = "Tekton"     // the pod of a TaskRun
	Knative Owner = "Knative"    // the pod of a Revision
	Argo    Owner = "Argo"       // the pod of a Workflow of Argo Workflows
	Asking  Owner = "Annotation" // any other pod that asks, by itself or by its namespace
)

// A Kind describes the pods of one owner: how they are recognised, which of their
// containers are wrapped, and what the owner does with these containers itself.
type Kind struct {
	Owner Owner
	// Label is the label that each of these pods has, with any value.
	Label string
	// Controller is the kind of the object that controls them, such as "TaskRun". Labels
	// can be forged, so if the labels of several Kinds are present, the controller
	// decides.
	Controller string
	// Own are the names of the owner's own containers, which aren't wrapped.
	Own []string
	// Wraps reports whether one of the other containers is the user's; nil stands for all
	// of them.
	Wraps func(corev1.Container) bool
	// Optional pods count as their owner's only if [Policy] names the owner.
	Optional bool
	// Steps reports whether the containers are steps of Tekton's, which Tekton's entrypoint
	// runs one after the other. Annotations may name a step without the prefix "step-",
	// and a step that the pod doesn't have: a PipelineRun passes its annotations to all of
	// its TaskRuns.
	Steps bool
	// Unsuited are the options without an effect on these pods, by name, with the reason
	// for which an annotation is refused, or "" if admission only warns of it.
	Unsuited map[string]string
	// RestartsAll advises the author of a helper (stop-when) why it is restarted
	// whenever it ends; "" if the author can change that.
	RestartsAll string

	// byName reports whether the pod's author named the containers one by one.
	byName bool
}

// kinds are the kinds that an [Injector] knows by default.
var kinds = []Kind{tektonKind, knativeKind, argoKind}

// asking is the kind of pods that ask by an annotation, and nobodys that of pods that are
// left alone.
var (
	asking  = Kind{Owner: Asking}
	nobodys Kind
)

// Kinds returns the default Kinds of an [Injector].
func Kinds() []Kind { return slices.Clone(kinds) }

// Owners returns the owners that [Policy] can name.
func Owners() (owners []Owner) {
	for _, kind := range kinds {
		owners = append(owners, kind.Owner)
	}
	return append(owners, Asking)
}

// wraps reports whether a container is wrapped.
func (k *Kind) wraps(c corev1.Container) bool {
	return !slices.Contains(k.Own, c.Name) && (k.Wraps == nil || k.Wraps(c))
}

// takes reports whether an option has an effect on these pods.
func (k *Kind) takes(o *Option) bool {
	_, unsuited := k.Unsuited[o.Name]
	return !unsuited && (k.Steps || !o.ofSteps)
}
