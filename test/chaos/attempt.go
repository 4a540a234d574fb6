// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// A kind is what a user creates, or asks.
type kind string

const (
	aPod        kind = "pod"
	aTaskRun    kind = "TaskRun"
	aJob        kind = "Job"
	aDeployment kind = "Deployment"
	// aScaleUp is a request to a Knative Service that has no pod.
	aScaleUp kind = "scale-up"
	// aDryRun is a pod that isn't stored. It is cheap, so there are more of them.
	aDryRun kind = "dry run"
	// aTag and aDigest are dry runs of pods without a command: the injector looks their image
	// up, by its tag or by its digest.
	aTag    kind = "lookup by tag"
	aDigest kind = "lookup by digest"
)

var (
	// objects take turns, and so do dryRuns.
	objects = []kind{aPod, aTaskRun, aJob, aDeployment, aScaleUp}
	dryRuns = []kind{aDryRun, aTag, aDryRun, aDigest}
	kinds   = append(slices.Clone(objects), aDryRun, aTag, aDigest)
)

// isAnswered says that all a user of this kind waits for is an answer.
func (k kind) isAnswered() bool { return k == aScaleUp || k.isDry() }

// isDry says that nothing is stored.
func (k kind) isDry() bool { return slices.Contains(dryRuns, k) }

const (
	// late is what an object may take until its container runs, or an answer may take.
	late = 20 * time.Second
	// stuck is what it may take until it is done.
	stuck = 2 * time.Minute
)

// A place is a namespace of the load.
type place int

const (
	// asking has opted in, and its pods ask to be wrapped.
	asking place = iota
	// all has opted in for all of its pods.
	all
	// plain hasn't opted in.
	plain
)

// An attempt is an object that a user creates, or a request, and what became of it.
type attempt struct {
	kind  kind
	name  string
	place place
	at    time.Time
	// asked says that there is an answer, refusal what if it was no.
	asked   bool
	took    time.Duration // until the answer
	refusal string
	pod     string // its name, "" as long as none was seen
	// wrapped and unwrapped are about its pod.
	wrapped, unwrapped bool
	byPolicy           bool          // the API server has wrapped it, in place of an injector
	started            time.Duration // until its container ran, 0 as long as it doesn't
	// done says that it has done what it is for, failure why it never will. A pod is gone
	// when it isn't listed any more.
	done, gone bool
	failure    string
	removed    bool // a Deployment that is done is deleted
}

func (a *attempt) optedIn() bool { return a.place != plain }

// start is how long it took until something ran, 0 if nothing does.
func (a *attempt) start() time.Duration {
	if a.kind == aScaleUp && a.refusal == "" {
		return a.took
	}
	return a.started
}

// decided says that it can't become better. It counts as bad as soon as it is late.
func (a *attempt) decided(now time.Time) bool {
	switch {
	case !a.asked:
		return now.Sub(a.at) > late
	case a.refusal != "" && a.pod == "", a.failure != "", a.done, a.kind.isAnswered():
		return true
	default:
		return a.started == 0 && now.Sub(a.at) > late || now.Sub(a.at) > stuck
	}
}

// over says that there is nothing left of it to wait for.
func (a *attempt) over() bool {
	return a.asked && (a.kind.isAnswered() || a.refusal != "" && a.pod == "" || a.failure != "" ||
		a.done && (a.kind != aDeployment || a.gone))
}

// good says that its user noticed nothing.
func (a *attempt) good() bool {
	asIntended := a.wrapped && !a.unwrapped
	if !a.optedIn() {
		asIntended = a.unwrapped && !a.wrapped
	}
	if a.kind.isAnswered() {
		return a.asked && a.refusal == "" && asIntended && a.took <= late
	}
	return a.asked && a.refusal == "" && a.failure == "" && asIntended && a.done && a.started <= late
}

// seeWrapping notes whether a pod's container runs under the supervisor.
func (a *attempt) seeWrapping(p *corev1.Pod) {
	for _, c := range p.Spec.Containers {
		if isMain(c.Name) {
			a.noteWrapping(slices.Contains(c.Command, pod.EntrypointPath))
		}
	}
}

func (a *attempt) noteWrapping(wrapped bool) {
	a.wrapped, a.unwrapped = a.wrapped || wrapped, a.unwrapped || !wrapped
}

// isMain says whether a container is the user's: a step has a prefix.
func isMain(name string) bool { return strings.TrimPrefix(name, "step-") == "main" }

// see notes what a pod says of an attempt.
func (a *attempt) see(p *corev1.Pod) {
	a.pod = p.Name
	a.seeWrapping(p)
	a.byPolicy = p.Annotations[pod.StatusAnnotation] == pod.InjectedByPolicy
	for _, s := range p.Status.ContainerStatuses {
		if !isMain(s.Name) || a.started > 0 {
			continue
		}
		for _, began := range startsOf(s) {
			// Kubernetes tells whole seconds.
			a.started = max(began.Sub(a.at), time.Millisecond)
		}
	}
	switch {
	case p.Status.Phase == corev1.PodSucceeded:
		a.done = true
	case p.Status.Phase == corev1.PodFailed && !a.removed:
		a.failure = "pod " + p.Name + " failed: " + why(p)
	case a.kind == aDeployment && a.started > 0 && isReady(p):
		a.done = true
	}
}

func startsOf(s corev1.ContainerStatus) (starts []time.Time) {
	if s.State.Running != nil {
		starts = append(starts, s.State.Running.StartedAt.Time)
	}
	if s.State.Terminated != nil {
		starts = append(starts, s.State.Terminated.StartedAt.Time)
	}
	return starts
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// why says how the containers of a failed pod have ended.
func why(p *corev1.Pod) string {
	ends := []string{p.Status.Reason, p.Status.Message}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if end := s.State.Terminated; end != nil && end.ExitCode != 0 {
			ends = append(ends, fmt.Sprintf("%s: exit code %d, %s %s", s.Name, end.ExitCode, end.Reason, end.Message))
		}
	}
	return strings.TrimSpace(strings.Join(ends, " "))
}
