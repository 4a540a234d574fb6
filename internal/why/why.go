// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package why answers, for the kubectl plugin, whether the containers of an object run
// under the supervisor, and why. It asks the API server what would happen to a pod that is
// created now, by a dry run, and compares that with the pods that exist. Package pod
// explains the decision on each container.
package why

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// The comments on the types of the document, and on their fields, are the descriptions in
// docs/cli.schema.json, which go test ./cmd/kubectl-entrypointer -run Schema -update writes.

// Answers is the document of kubectl entrypointer why.
type Answers struct {
	// One answer for each object, in the order in which they are asked about.
	Answers []*Answer `json:"answers"`
}

// An Answer says of one object whether its pods are wrapped, and why.
type Answer struct {
	// The object, as TYPE/NAME.
	Target string `json:"target"`
	// The namespace of the object.
	Namespace string `json:"namespace"`
	// Whether all of the pods are wrapped, or would be: what the exit code says.
	Wrapped bool `json:"wrapped"`
	// The decision on a pod that the object's controller would create now. It is absent if
	// there is no such pod, or if it is unknown.
	Now *Decision `json:"now,omitempty"`
	// The decisions on pods that exist, the newest first.
	Pods []*Decision `json:"pods,omitempty"`
	// Whether there may be pods that aren't among pods, because the user may not list them.
	Unlisted bool `json:"unlisted,omitempty"`
	// What the API server didn't answer, and which right is missing for it.
	Unknown []string `json:"unknown,omitempty"`
	// Why there is no answer about the object. It is absent if there is one.
	Error string `json:"error,omitempty"`
}

// A Decision is what was or would be decided on a pod.
type Decision struct {
	// The name of a pod that exists.
	Pod string `json:"pod,omitempty"`
	// When the pod was created.
	Created time.Time `json:"created,omitzero"`
	// Whether the pod has ended. Beside new pods that are wrapped, it doesn't count, unless it
	// is the object.
	Ended bool `json:"ended,omitempty"`
	// One word of those in docs/cli.md#the-answers, which says why the pod is wrapped or not.
	Reason Reason `json:"reason"`
	// What the API server said of a pod that it refuses.
	Message string `json:"message,omitempty"`
	// How the supervisor gets into the pod.
	Delivery pod.Delivery `json:"delivery,omitempty"`
	// The containers of a pod of which at least one is wrapped.
	Containers []Container `json:"containers,omitempty"`
	// The warnings that the creator of the pod gets.
	Warnings []string `json:"warnings,omitempty"`
	// In what an existing pod differs from one that is created now.
	Differs []string `json:"differs,omitempty"`
	// What to do, if there is something to do.
	Do string `json:"do,omitempty"`
	// The command to type next, if there is one.
	Next string `json:"next,omitempty"`

	of *corev1.Pod // the pod, or the one that was tried
}

// A Container is what was or would be decided on a container.
type Container struct {
	// The name of the container.
	Name string `json:"name"`
	// Whether it runs under the supervisor.
	Wrapped bool `json:"wrapped"`
	// Why the container isn't wrapped.
	Why string `json:"why,omitempty"`
	// The image, by its digest if the command was looked up.
	Image string `json:"image,omitempty"`
	// Where the command line is from: Pod (command: and args: of the container) or Image (its
	// ENTRYPOINT and CMD, which were looked up). It is absent for a pod that exists, which
	// doesn't tell.
	CommandFrom string `json:"commandFrom,omitempty"`
	// The options of a container that is wrapped.
	Options []Option `json:"options,omitempty"`
	// What the kubelet says of a container that exists.
	State string `json:"state,omitempty"`
}

// An Option is the value of an option for a container.
type Option struct {
	// The name of the option, as in docs/options.md.
	Name string `json:"name"`
	// Its value.
	Value string `json:"value"`
	// The annotation that sets it. It is absent for a default of entrypointer.
	Source string `json:"source,omitempty"`
}

// IsWrapped reports whether all of the pods are, or would be, as the injector means them
// to be: wrapped.
func (a *Answer) IsWrapped() bool {
	if a.Now == nil && len(a.Pods) == 0 {
		return false
	}
	if a.Now != nil && !a.Now.Reason.isWrapped() {
		return false
	}
	for _, d := range a.Pods {
		isPast := d.Ended && a.Now != nil && a.Target != target.Pod+"/"+d.Pod
		if !d.Reason.isWrapped() && !isPast {
			return false
		}
	}
	return true
}

// IsUnknown reports whether neither a new pod nor an existing one could be asked about, or
// whether there may be pods that aren't wrapped.
func (a *Answer) IsUnknown() bool {
	return a.Now == nil && len(a.Pods) == 0 || a.Unlisted && a.IsWrapped()
}
