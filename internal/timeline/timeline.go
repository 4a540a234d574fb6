// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package timeline tells, for the kubectl plugin, where the time went in the containers of
// an object's pods: how long each waited and ran, what the kubelet did before, and what a
// hand-off from one container to the next cost.
//
// Several witnesses know parts of that. The log service has the events of each start of a
// container, also of pods that are gone. The supervisor of a container that runs is asked,
// and one that has ended may have left its status as the termination message. Tekton's
// entrypoint leaves there when a step's command began. The kubelet knows all containers, in
// whole seconds. Each life of a container is told by the best of them ([Source]).
package timeline

import (
	"fmt"
	"time"
)

// The comments on the types of the document, and on their fields, are the descriptions in
// docs/cli.schema.json, which go test ./cmd/kubectl-entrypointer -run Schema -update writes.

// A Timeline is the document of kubectl entrypointer timeline.
type Timeline struct {
	// The object, as TYPE/NAME.
	Target string `json:"target"`
	// The namespace of the object.
	Namespace string `json:"namespace"`
	// When the first of the pods was created.
	From time.Time `json:"from,omitzero"`
	// The last moment of all spans: the time of the question if one goes on.
	To time.Time `json:"to,omitzero"`
	// The pods, the oldest first.
	Pods []Pod `json:"pods"`
	// The hand-offs between containers.
	HandOffs []HandOff `json:"handOffs,omitempty"`
	// The TaskRuns of a PipelineRun that determined how long it took, the first one first.
	CriticalPath []Stage `json:"criticalPath,omitempty"`
	// What isn't known, and why.
	Notes []string `json:"notes,omitempty"`

	isRun bool      // the pods belong to one run, and so share an axis
	asked time.Time // when the question was asked
}

// A Pod is a pod, or what the log service has of one that is gone.
type Pod struct {
	// The name of the pod.
	Name string `json:"name"`
	// When it was created. It is absent if the pod is gone.
	Created time.Time `json:"created,omitzero"`
	// Whether the pod is gone.
	Gone bool `json:"gone,omitempty"`
	// Who tells its times: log service, supervisor, Tekton, TaskRun, kubelet or Events.
	Sources []Source `json:"sources,omitempty"`
	// The id of the trace in which its commands work by the option trace, 32 hexadecimal digits.
	// It is absent if it isn't known, or if the trace isn't recorded.
	TraceID string `json:"traceId,omitempty"`
	// What it spent time on while none of its containers did anything.
	Spans []Span `json:"spans,omitempty"`
	// Its init containers, and then its containers.
	Containers []Container `json:"containers,omitempty"`

	scheduled time.Time // when it got its node, zero if that isn't known
	isPending bool      // its containers haven't all been started
}

// A Container is a container with what came before its first start, and its starts.
type Container struct {
	// The name of the container.
	Name string `json:"name"`
	// Whether it is an init container.
	Init bool `json:"init,omitempty"`
	// Whether it runs under the supervisor.
	Wrapped bool `json:"wrapped"`
	// What the kubelet did when the container wasn't running.
	Spans []Span `json:"spans,omitempty"`
	// Its starts that are known, the first one first.
	Lives []Life `json:"lives,omitempty"`
}

// A Life is one start of a container.
type Life struct {
	// Who tells its times: log service, supervisor, Tekton or kubelet.
	Source Source `json:"source"`
	// Why it ended. It is absent while the container runs.
	Reason string `json:"reason,omitempty"`
	// The exit code of the container. It is absent while the container runs.
	ExitCode *int `json:"exitCode,omitempty"`
	// What the time was spent on.
	Spans []Span `json:"spans,omitempty"`

	began time.Time
	trace string // the id of its trace, "" if its events have none
}

// A Source is who knows the times of a life.
type Source string

// The sources.
const (
	Logs       Source = "log service" // the stream of events
	Supervisor Source = "supervisor"  // its status
	Tekton     Source = "Tekton"      // the termination message of a step: when the command began
	TaskRun    Source = "TaskRun"     // its status, in whole seconds
	Kubelet    Source = "kubelet"     // the status of the pod, in whole seconds
	Events     Source = "Events"      // Kubernetes' own, in whole seconds
)

// A Kind says what a span of time was spent on.
type Kind string

// The kinds, in the order in which they follow each other.
const (
	Requesting Kind = "requesting" // the TaskRun has started, and has no pod yet
	Scheduling Kind = "scheduling" // the pod has no node yet
	Starting   Kind = "starting"   // the kubelet prepares the pod, and none of its containers
	Pulling    Kind = "pulling"    // the kubelet pulls the image
	Creating   Kind = "creating"   // the runtime creates the container
	Waiting    Kind = "waiting"    // for other containers, for URLs, or for the turn of a step
	Hook       Kind = "hook"       // a before-start hook runs
	Paused     Kind = "paused"     // as the option pause requires
	Running    Kind = "running"    // the command runs
	Alive      Kind = "alive"      // the container runs; how long it waited before its command isn't known
	Stopping   Kind = "stopping"   // the stop signal has arrived, and the command hasn't ended
	Ending     Kind = "ending"     // the command has ended, and the container hasn't
	Restarting Kind = "restarting" // the container has ended, and the kubelet will start it again
	Completing Kind = "completing" // the last step has ended, and the TaskRun hasn't completed
	// Unattributed is time of which nobody tells what it was spent on.
	Unattributed Kind = "unattributed"
)

// A Span is a span of time.
type Span struct {
	// What it was spent on: requesting, scheduling, starting, pulling, creating, waiting, hook,
	// paused, running, alive (waiting or running), stopping, ending, restarting, completing or
	// unattributed (nobody tells).
	Kind Kind `json:"kind"`
	// When it began.
	From time.Time `json:"from"`
	// When it ended. It is absent while the span goes on.
	To time.Time `json:"to,omitzero"`
	// What is waited for, the image that is pulled, the hook, the reason, or how much of the run
	// of a step was that of Tekton's entrypoint.
	For string `json:"for,omitempty"`
	// How a wait ended: met, failed, timedOut, aborted or unknown; the reason of a pull that
	// failed; or cutOff, if the end wasn't stored.
	Outcome string `json:"outcome,omitempty"`
	// The exit code of the command or the hook.
	ExitCode *int `json:"exitCode,omitempty"`
	// 1s if an end of the span is known to the second only.
	Precision string `json:"precision,omitempty"`

	source               Source
	start                int // which start of the container it belongs to, from 1 on, 0 for none
	needs                []need
	done                 time.Time // when the wait was over, if the span lasts until the start of the next
	coarseFrom, coarseTo bool
}

// wholeSeconds is the Precision of the kubelet's times.
const wholeSeconds = "1s"

// A HandOff is the time from the end of what a container waited for to the start of its
// command.
type HandOff struct {
	// The pod of the containers.
	Pod string `json:"pod"`
	// The container that was waited for, or several.
	From string `json:"from"`
	// The container that waited.
	To string `json:"to"`
	// How long it took, in milliseconds.
	Milliseconds int64 `json:"milliseconds"`
	// 1s if the end of what was waited for is known to the second only: the milliseconds are an
	// upper bound then.
	Precision string `json:"precision,omitempty"`
}

// Took says how long a hand-off took.
func (h *HandOff) Took() string {
	switch {
	case h.Milliseconds == 0:
		return "<1 ms"
	case h.Precision != "":
		return fmt.Sprintf("up to %d ms", h.Milliseconds)
	default:
		return fmt.Sprintf("%d ms", h.Milliseconds)
	}
}

// A Stage is a TaskRun on the critical path. Tekton's times are whole seconds.
type Stage struct {
	// The name of the TaskRun.
	TaskRun string `json:"taskRun"`
	// The name of the task in the Pipeline.
	Task string `json:"task"`
	// When it started, with its first attempt.
	From time.Time `json:"from"`
	// When it completed.
	To time.Time `json:"to"`
	// The time in milliseconds since the end of the stage before, or since the start of the
	// PipelineRun.
	WaitedBefore int64 `json:"waitedBefore"`
}

// Waited says how long the time before the TaskRun was.
func (s *Stage) Waited() string { return length(time.Duration(s.WaitedBefore)*time.Millisecond, true) }

// Took says how long the TaskRun took.
func (s *Stage) Took() string { return length(max(0, s.To.Sub(s.From)), true) }
