// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/between"
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

// tektonKind are the pods of TaskRuns. Steps only: Tekton stops a sidecar by replacing its
// image by one in which the supervisor would keep the container alive, and reads its log
// sidecar by protocol.
var tektonKind = Kind{
	Owner: Tekton, Label: "tekton.dev/taskRun", Controller: "TaskRun", Wraps: isStep, Steps: true,
	Unsuited: map[string]string{
		between.DependsOn:      "Tekton has an order of its own for the steps of a TaskRun, and its sidecars aren't wrapped; write the steps in their order",
		between.StopWhen:       "Tekton ends the steps of a TaskRun in their order, and its sidecars, which aren't wrapped, after the last step",
		between.WaitFor:        "Tekton starts a TaskRun's steps when all of its containers are ready",
		between.EndSidecars:    "Tekton ends the sidecars of a TaskRun itself, after its last step",
		between.Stdin:          "Tekton runs the steps of a TaskRun one after the other, and no pipe leads from one to the next; write to a file of a workspace",
		between.ReadyWhen:      "",
		dependsOnTimeoutOption: "",
		"termination-message":  "", // it would replace the step's results
	},
}

// stepPrefix begins the names of the containers of Tekton's steps. The rest is the step's
// own name, which the author of the TaskRun wrote.
const stepPrefix = "step-"

func isStep(c corev1.Container) bool { return strings.HasPrefix(c.Name, stepPrefix) }

// knativeKind are the pods of Revisions.
var knativeKind = Kind{
	Owner: Knative, Label: "serving.knative.dev/revision", Controller: "ReplicaSet", Own: []string{"queue-proxy"},
	RestartsAll: "Knative restarts all containers of a Revision; remove the annotation",
}

// argoKind are the pods of Workflows. The container wait collects the outputs of the others,
// and ends them by files and signals of its own
// (https://github.com/argoproj/argo-workflows/blob/v4.1.2/workflow/common/common.go,
// LabelKeyWorkflow and WaitContainerName).
var argoKind = Kind{
	Owner: Argo, Label: "workflows.argoproj.io/workflow", Controller: "Workflow", Own: []string{"wait"}, Optional: true,
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
