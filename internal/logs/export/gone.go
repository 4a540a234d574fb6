// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/entrypointer/entrypointer/internal/logs/spans"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// startSkew is by how much the runtime's time of a start, in whole seconds, and that of the
// supervisor may differ.
const startSkew = 2 * time.Second

// A podObject is what matters here of a pod.
type podObject struct {
	Metadata struct {
		UID string `json:"uid"`
	} `json:"metadata"`
	Status struct {
		InitContainerStatuses []containerStatus `json:"initContainerStatuses"`
		ContainerStatuses     []containerStatus `json:"containerStatuses"`
	} `json:"status"`
}

type containerStatus struct {
	Name         string         `json:"name"`
	RestartCount int64          `json:"restartCount"`
	State        containerState `json:"state"`
	LastState    containerState `json:"lastState"`
}

type containerState struct {
	Running *struct {
		StartedAt time.Time `json:"startedAt"`
	} `json:"running"`
	Terminated *terminated `json:"terminated"`
}

type terminated struct {
	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt"`
	ExitCode   int64     `json:"exitCode"`
	Reason     string    `json:"reason"`
}

// isOf reports whether this is the end of a start, by the times unless it is the only start.
func (e *terminated) isOf(began time.Time, isOnly bool) bool {
	if e.FinishedAt.IsZero() {
		return false
	}
	return isOnly || !e.StartedAt.After(began.Add(startSkew)) && !e.FinishedAt.Add(startSkew).Before(began)
}

// isGone reports whether a container that has told no end for long has ended nevertheless,
// because its node has failed for instance. Then it ends the start, by the kubelet's words if
// there are any.
func (s *spanSignal) isGone(ctx context.Context, source streams.Source, start *spans.Start) bool {
	if s.read == nil || s.now().Sub(start.Last()) < quietTime {
		return false
	}
	document, err := s.get(ctx, "/api/v1", "pods", source.Namespace, source.Pod)
	if apierrors.IsNotFound(err) {
		start.CutOff(time.Time{}, "", nil)
		return true
	}
	var pod podObject
	if err != nil || json.Unmarshal(document, &pod) != nil {
		return false
	}
	if pod.Metadata.UID != source.PodUID {
		start.CutOff(time.Time{}, "", nil)
		return true
	}
	began, err := time.Parse(time.RFC3339Nano, source.Start)
	all := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	at := slices.IndexFunc(all, func(c containerStatus) bool { return c.Name == source.Container })
	if err != nil || at < 0 {
		return false
	}
	return goneBy(all[at], began, start)
}

// goneBy is isGone by the status of the container. On a node with much load, the runtime may say
// of a start that it was much later than the supervisor does, so the times count only if there
// was more than one start.
func goneBy(status containerStatus, began time.Time, start *spans.Start) bool {
	latest := began.Add(startSkew) // that the runtime may say of this start
	running, ended, before := status.State.Running, status.State.Terminated, status.LastState.Terminated
	isOnly := status.RestartCount == 0
	isAfter := before != nil && !before.FinishedAt.IsZero() && before.FinishedAt.Add(startSkew).Before(began)
	if running != nil && (isOnly || isAfter || !running.StartedAt.After(latest)) {
		return false
	}
	for _, e := range []*terminated{ended, before} {
		if e != nil && e.isOf(began, isOnly) {
			start.CutOff(e.FinishedAt, e.Reason, &e.ExitCode)
			return true
		}
	}
	// Without times, nobody knows how it ended: ContainerStatusUnknown.
	isOver := ended != nil && (ended.FinishedAt.IsZero() || ended.StartedAt.After(latest))
	isLater := running != nil
	if isOver || isLater {
		start.CutOff(time.Time{}, "", nil)
	}
	return isOver || isLater
}
