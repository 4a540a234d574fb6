// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/printable"
)

// A CutOffError says that streams were cut off: their containers have ended, but the
// streams have no end, because the sender was killed or couldn't reach the log service in
// time. A container of which the log service has nothing counts as a stream. Everything
// that was sent is printed, and warnings name the streams.
type CutOffError struct{ Streams int }

// Error implements error.
func (e *CutOffError) Error() string { return fmt.Sprintf("%d streams were cut off", e.Streams) }

// cutOffError returns the error for a number of streams, nil for none.
func cutOffError(streams int) error {
	if streams == 0 {
		return nil
	}
	return &CutOffError{streams}
}

// cutOffWarning returns the warning about a stream without an end.
func (s Stream) cutOffWarning(state containerState) string {
	if state == stateUnknown {
		return s.String() + " isn't complete. To learn whether the container still runs, you need the right to get pods."
	}
	return s.String() + " was cut off: the container has ended, and what it printed last may be missing."
}

// A containerState says whether the container of a stream can still print.
type containerState int

const (
	stateRuns containerState = iota
	stateEnded
	stateUnknown // the user may not get pods
)

// containerState asks the API server about the container of a stream.
func (c *Client) containerState(ctx context.Context, s Stream) (containerState, error) {
	answer, err := c.REST.Get().AbsPath("/api/v1/namespaces", c.Namespace, "pods", s.Pod).SetHeader("Accept", "application/json").DoRaw(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return stateEnded, nil
	case apierrors.IsForbidden(err):
		return stateUnknown, nil
	case err != nil:
		return stateUnknown, fmt.Errorf("asking whether %s can get more: %w", s, err)
	}
	var pod podObject
	if err := json.Unmarshal(answer, &pod); err != nil {
		return stateUnknown, fmt.Errorf("asking whether %s can get more: reading the response: %w", s, err)
	}
	if pod.hasEnded(s) {
		return stateEnded, nil
	}
	return stateRuns, nil
}

// podObject has the fields of a pod that say which of its containers run, and which of
// them send their output.
type podObject struct {
	Metadata struct {
		Name, UID       string
		OwnerReferences []metav1.OwnerReference
	}
	Spec   struct{ Containers, InitContainers []containerSpec }
	Status struct {
		Phase                                    string
		ContainerStatuses, InitContainerStatuses []runStatus
	}
}

// runStatus says which runs of a container there are.
type runStatus struct {
	Name             string
	State, LastState struct {
		Terminated *terminated
		Running    *struct{ StartedAt string }
	}
}

// slowRuntime is how long after a process has begun the runtime may look at the clock.
const slowRuntime = 500 * time.Millisecond

// canBe reports whether a stream can be that of the run that goes on.
func (s *runStatus) canBe(began int64) bool {
	if s.State.Running == nil {
		return false
	}
	since, err := time.Parse(time.RFC3339, s.State.Running.StartedAt)
	return err == nil && began >= since.Add(-slowRuntime).UnixMilli()
}

// terminated is a run of a container that has ended. The times are in seconds, rounded
// down.
type terminated struct{ StartedAt, FinishedAt, Reason string }

// hasEnded reports whether the run of the container that prints a stream is over. The
// status of a pod may be some seconds old, so only a run that has ended later than the
// stream has begun counts.
func (p *podObject) hasEnded(s Stream) bool {
	if s.former || p.Metadata.UID != s.PodUID || p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" {
		return true
	}
	for _, c := range append(p.Status.ContainerStatuses, p.Status.InitContainerStatuses...) {
		if c.Name != s.Container || c.canBe(s.began()) {
			continue
		}
		for _, ended := range []*terminated{c.State.Terminated, c.LastState.Terminated} {
			if ended == nil {
				continue
			}
			at, err := time.Parse(time.RFC3339, ended.FinishedAt)
			if err == nil && s.began() < at.Add(time.Second).UnixMilli() {
				return true
			}
		}
	}
	return false
}

// missingAt returns the part that a stream lacks at an offset, if later bytes are known.
func (c *Client) missingAt(ctx context.Context, s Stream, at int64) (missing part, is bool, err error) {
	state, err := c.state(ctx, s.ID)
	if err != nil {
		return part{}, false, err
	}
	for _, r := range state.missing {
		if r.from <= at && at < r.to {
			return part{From: at, To: r.to}, true, nil
		}
	}
	return part{}, false, nil
}

// copyRest is copyParts for a stream whose container has ended. It waits for nothing.
func (c *Client) copyRest(ctx context.Context, s Stream, from int64, to partSink) (complete bool, err error) {
	for {
		noted := &offsetSink{partSink: to, at: from}
		if complete, err = c.copyParts(ctx, s, from, false, noted); complete || err != nil {
			return complete, err
		}
		missing, is, err := c.missingAt(ctx, s, noted.at)
		if err != nil || !is {
			return false, err
		}
		if err := to.part(missing); err != nil {
			return false, err
		}
		from = missing.To
	}
}

// An offsetSink notes the offset behind the last part.
type offsetSink struct {
	partSink
	at int64
}

func (o *offsetSink) part(p part) error {
	o.at = p.To
	return o.partSink.part(p)
}

// String names a stream in messages.
func (s Stream) String() string {
	return fmt.Sprintf("%s of container %q of pod %q", printable.Line(s.Name), s.Container, s.Pod)
}

// cutOffEvent returns the event that stands for the unknown end of a stream of events.
func cutOffEvent(last int64) []byte {
	return fmt.Appendf(nil, `{"time":%q,"event":"cutOff"}`+"\n", time.UnixMilli(last).UTC().Format(timestamp))
}
