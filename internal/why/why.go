// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package why answers, for the kubectl plugin, whether the containers of an object run
// under the supervisor, and why. It asks the API server what would happen to a pod that is
// created now, by a dry run, and compares that with the pods that exist. Package pod
// explains the decision on each container.
package why

import (
	"time"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// Answers is what the command prints.
type Answers struct {
	// Answers are those about each object, in the order in which they are asked about.
	Answers []*Answer `json:"answers"`
}

// An Answer is what is said of one object.
type Answer struct {
	// Target is TYPE/NAME.
	Target    string `json:"target"`
	Namespace string `json:"namespace"`
	// Wrapped says yes, no more and no less than the exit code does.
	Wrapped bool `json:"wrapped"`
	// Now is the decision on a pod that the object's controller would create now; nil if
	// there is no such pod.
	Now *Decision `json:"now,omitempty"`
	// Pods are the decisions on pods that exist, the newest first.
	Pods []*Decision `json:"pods,omitempty"`
	// Unlisted reports whether there may be pods that aren't among Pods, because the user may
	// not list them.
	Unlisted bool `json:"unlisted,omitempty"`
	// Unknown says what the API server didn't answer, and which right is missing for it.
	Unknown []string `json:"unknown,omitempty"`
}

// A Decision is what was or would be decided on a pod.
type Decision struct {
	// Pod is the name of a pod that exists.
	Pod     string    `json:"pod,omitempty"`
	Created time.Time `json:"created,omitzero"`
	// Reason is one word of the [Reasons].
	Reason Reason `json:"reason"`
	// Message is what the API server said, for a pod that it refuses.
	Message  string       `json:"message,omitempty"`
	Delivery pod.Delivery `json:"delivery,omitempty"`
	// Containers are those of a pod that is wrapped, or a part of it.
	Containers []Container `json:"containers,omitempty"`
	// Warnings are those that the creator of the pod gets.
	Warnings []string `json:"warnings,omitempty"`
	// Differs says in what an existing pod differs from one that is created now.
	Differs []string `json:"differs,omitempty"`
	// Do says what to do, "" for nothing.
	Do string `json:"do,omitempty"`
	// Next is the command to type next, "" if there is nothing to do.
	Next string `json:"next,omitempty"`
}

// A Container is what was or would be decided on a container.
type Container struct {
	Name    string `json:"name"`
	Wrapped bool   `json:"wrapped"`
	// Why says why the container isn't wrapped.
	Why string `json:"why,omitempty"`
	// Image is that of the pod: by its digest, if its command was looked up.
	Image string `json:"image,omitempty"`
	// CommandFrom says from where the supervisor has the command line: Pod (command: of the
	// container) or Image (its ENTRYPOINT and CMD, which were looked up). It is absent for a
	// pod that exists, which doesn't tell.
	CommandFrom string   `json:"commandFrom,omitempty"`
	Options     []Option `json:"options,omitempty"`
	// State is what the kubelet says of a container that exists.
	State string `json:"state,omitempty"`
}

// An Option is the value of an option for a container.
type Option struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Source is the annotation, "" for a default of entrypointer.
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
		if !d.Reason.isWrapped() {
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
