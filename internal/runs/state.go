// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/target"
)

// An object is what is read of an object of any kind.
type object struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas *int32 `json:"replicas"`
	} `json:"spec"`
	Status struct {
		Conditions []condition `json:"conditions"`
		// Those of pods and Workflows.
		Phase   string `json:"phase"`
		Reason  string `json:"reason"`
		Message string `json:"message"`
		// Those of pods, Jobs and Tekton's runs, and of Workflows.
		StartTime      *metav1.Time `json:"startTime"`
		CompletionTime *metav1.Time `json:"completionTime"`
		StartedAt      *metav1.Time `json:"startedAt"`
		FinishedAt     *metav1.Time `json:"finishedAt"`
		// Those of Deployments and StatefulSets, and of DaemonSets.
		ReadyReplicas          int32                    `json:"readyReplicas"`
		NumberReady            int32                    `json:"numberReady"`
		DesiredNumberScheduled int32                    `json:"desiredNumberScheduled"`
		Active                 int32                    `json:"active"`
		InitContainerStatuses  []corev1.ContainerStatus `json:"initContainerStatuses"`
		ContainerStatuses      []corev1.ContainerStatus `json:"containerStatuses"`
	} `json:"status"`
}

// A condition is one of a status.
type condition struct {
	Type               string      `json:"type"`
	Status             string      `json:"status"`
	Reason             string      `json:"reason"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
}

// run returns the run that an object of a kind is.
func (o *object) run(k target.Kind) Run {
	r := Run{Target: target.Target{Kind: k, Of: o.Name}, Labels: o.Labels, Part: isPart(o.OwnerReferences)}
	r.Began = first(o.Status.StartTime, o.Status.StartedAt, &o.CreationTimestamp)
	r.Ended = first(o.Status.CompletionTime, o.Status.FinishedAt)
	switch k.Name {
	case target.Pod:
		o.judgePod(&r)
	case "job":
		o.judgeJob(&r)
	case "deployment", "statefulset":
		wanted := int32(1)
		if o.Spec.Replicas != nil {
			wanted = *o.Spec.Replicas
		}
		o.judgeReplicas(&r, o.Status.ReadyReplicas, wanted)
	case "daemonset":
		o.judgeReplicas(&r, o.Status.NumberReady, o.Status.DesiredNumberScheduled)
	case "workflow":
		r.State = map[string]State{"Pending": Waiting, "Running": Running, "Succeeded": Succeeded, "Failed": Failed, "Error": Failed}[o.Status.Phase]
		r.State = cmp.Or(r.State, Waiting)
	default:
		o.judgeCondition(&r, k.Ends)
	}
	return r
}

// first returns the first moment that is known.
func first(moments ...*metav1.Time) time.Time {
	for _, m := range moments {
		if m != nil && !m.IsZero() {
			return m.UTC()
		}
	}
	return time.Time{}
}

// condition returns a condition, nil if there is none of this type.
func (o *object) condition(typed string) *condition {
	at := slices.IndexFunc(o.Status.Conditions, func(c condition) bool { return c.Type == typed })
	if at < 0 {
		return nil
	}
	return &o.Status.Conditions[at]
}

// judgeCondition judges Tekton's runs by their condition Succeeded, and Knative's objects by
// Ready.
func (o *object) judgeCondition(r *Run, ends bool) {
	c := o.condition("Ready")
	if ends {
		c = o.condition("Succeeded")
	}
	if c == nil {
		r.State = Waiting
		return
	}
	states := map[string]State{"True": Ready, "False": Failed, "Unknown": NotReady}
	if ends {
		states = map[string]State{"True": Succeeded, "False": Failed, "Unknown": Running}
	}
	r.State = cmp.Or(states[c.Status], Unknown)
	if !strings.EqualFold(c.Reason, string(r.State)) {
		r.Reason = c.Reason
	}
}

func (o *object) judgeJob(r *Run) {
	is := func(typed string) *condition {
		if c := o.condition(typed); c != nil && c.Status == "True" {
			return c
		}
		return nil
	}
	switch {
	case is("Complete") != nil:
		r.State = Succeeded
	case is("Failed") != nil:
		c := is("Failed")
		r.State, r.Reason, r.Ended = Failed, c.Reason, c.LastTransitionTime.UTC()
	case is("Suspended") != nil:
		r.State, r.Reason = Waiting, "Suspended"
	case o.Status.Active > 0:
		r.State = Running
	default:
		r.State = Waiting
	}
}

func (o *object) judgeReplicas(r *Run, ready, wanted int32) {
	r.State, r.Reason = Ready, fmt.Sprintf("%d of %d", ready, wanted)
	if ready < wanted {
		r.State = NotReady
	}
	if c := o.condition("Progressing"); c != nil && c.Status == "False" {
		r.State, r.Reason = Failed, c.Reason
	}
}

func (o *object) judgePod(r *Run) {
	s := &o.Status
	r.State = cmp.Or(map[string]State{"Pending": Waiting, "Running": Running, "Succeeded": Succeeded, "Failed": Failed}[s.Phase], Unknown)
	r.Reason = s.Reason
	hasEnded := r.HasEnded()
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		switch state := c.State; {
		case state.Waiting != nil && !hasEnded:
			r.Reason = cmp.Or(r.Reason, unlessUsual(state.Waiting.Reason))
		case state.Terminated != nil:
			if state.Terminated.ExitCode != 0 {
				r.Reason = cmp.Or(r.Reason, fmt.Sprintf("exit code %d", state.Terminated.ExitCode))
			}
			if end := state.Terminated.FinishedAt; hasEnded && end.After(r.Ended) {
				r.Ended = end.UTC()
			}
		}
	}
	if c := o.condition(string(corev1.PodScheduled)); r.State == Waiting && c != nil && c.Status == "False" {
		r.Reason = c.Reason
	}
	if o.DeletionTimestamp != nil && !hasEnded {
		r.Reason = "Terminating"
	}
}

// unlessUsual returns a reason for which a container waits, "" for those of each start.
func unlessUsual(reason string) string {
	if reason == "ContainerCreating" || reason == "PodInitializing" {
		return ""
	}
	return reason
}
