// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// The states of a container.
const (
	waiting    = "Waiting"
	running    = "Running"
	terminated = "Terminated"
)

// statusOf returns what the kubelet says of a pod.
func statusOf(p *corev1.Pod) Pod {
	s := Pod{Name: p.Name, Phase: cmp.Or(string(p.Status.Phase), "Unknown"), Node: p.Spec.NodeName, IP: p.Status.PodIP, Containers: []Container{}, Object: p}
	if p.Status.Reason != "" {
		s.Phase += " (" + p.Status.Reason + ")"
	}
	turns := pod.Turns(p)
	for at, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		init := at < len(p.Spec.InitContainers)
		statuses := p.Status.ContainerStatuses
		if init {
			statuses = p.Status.InitContainerStatuses
		}
		one := Container{Name: c.Name, Init: init, Wrapped: pod.IsWrapped(c)}
		if found := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name }); found >= 0 {
			one.fill(&statuses[found])
		}
		if step := slices.IndexFunc(turns, func(t pod.Turn) bool { return t.Step == c.Name }); step >= 0 {
			one.turn = &turns[step]
		}
		s.Containers = append(s.Containers, one)
	}
	return s
}

// PodStart is what the first step of a TaskRun waits for.
const PodStart = "the start of the pod"

// waitsForTurn reports whether a step waits for its turn. Its supervisor waits for files,
// and doesn't know whose they are.
func (c *Container) waitsForTurn() bool {
	return c.turn != nil && c.Supervisor != nil && c.Supervisor.Phase == "Waiting" && len(c.Supervisor.WaitingFor) == 0
}

func (c *Container) fill(s *corev1.ContainerStatus) {
	c.Restarts, c.Ready = s.RestartCount, s.Ready
	switch state := s.State; {
	case state.Waiting != nil:
		c.State, c.Reason, c.Message = waiting, state.Waiting.Reason, state.Waiting.Message
	case state.Running != nil:
		c.State, c.Since = running, state.Running.StartedAt.Time
	case state.Terminated != nil:
		run := c.runOf(state.Terminated)
		c.State, c.Reason, c.Message, c.Since, c.ExitCode, c.Supervisor = terminated, run.Reason, run.Message, run.Since, &run.ExitCode, run.Supervisor
	}
	if last := s.LastTerminationState.Terminated; last != nil {
		c.Previous = c.runOf(last)
	}
}

// runOf returns a run that has ended. It may have left its supervisor's status as its
// termination message.
func (c *Container) runOf(t *corev1.ContainerStateTerminated) *Run {
	run := &Run{ExitCode: t.ExitCode, Reason: t.Reason, Message: t.Message, Since: t.FinishedAt.Time}
	var left Supervisor
	if c.Wrapped && strings.HasPrefix(t.Message, "{") && json.Unmarshal([]byte(t.Message), &left) == nil && left.Phase != "" {
		run.Supervisor, run.Message = &left, ""
	}
	return run
}
