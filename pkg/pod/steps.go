// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/between"
)

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

// A Turn is what a step of a TaskRun waits for before it runs.
type Turn struct {
	// Step is the step's container.
	Step string
	// After is the container of the step before, which has to end. It is "" for the first step,
	// which waits for the start of the pod's containers.
	After string
}

// Turns returns the order of the steps of a TaskRun's pod, wrapped or not: that of its
// containers (https://github.com/tektoncd/pipeline/blob/v1.15.0/pkg/pod/entrypoint.go,
// orderContainers). It is nil for other pods.
func Turns(pod *corev1.Pod) (all []Turn) {
	if pod.Labels[tektonKind.Label] == "" {
		return nil
	}
	before := ""
	for _, c := range pod.Spec.Containers {
		if isStep(c) {
			all = append(all, Turn{c.Name, before})
			before = c.Name
		}
	}
	return all
}
