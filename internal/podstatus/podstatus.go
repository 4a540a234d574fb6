// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package podstatus reads, for the kubectl plugin, what each container of a pod does at the
// moment: what the kubelet says of it, and what its supervisor says itself.
package podstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

const (
	// atOnce bounds the supervisors that are asked at the same time.
	atOnce = 8
	// patience is how long all supervisors have to answer: a node may be gone.
	patience = 5 * time.Second
	// kubeletsDelay is how long a kubelet usually takes to tell of a container's end.
	kubeletsDelay = time.Second
)

// The comments on the types of the document, and on their fields, are the descriptions in
// docs/cli.schema.json, which go test ./cmd/kubectl-entrypointer -run Schema -update writes.

// Answers is the document of kubectl entrypointer status.
type Answers struct {
	// One report for each object, in the order in which they are asked for.
	Answers []*Report `json:"answers"`
}

// A Report is the status of the pods of one object.
type Report struct {
	// The object, as TYPE/NAME.
	Target string `json:"target"`
	// The namespace of the object.
	Namespace string `json:"namespace"`
	// The pods that exist, the oldest first.
	Pods []Pod `json:"pods"`
	// Why there is no answer about the object. It is absent if there is one.
	Error string `json:"error,omitempty"`

	// Older is how many older pods are left out.
	Older int `json:"-"`

	ended bool // no pods follow
	isRun bool // only a controller can make the pods
}

// A Pod is the status of a pod.
type Pod struct {
	// The name of the pod.
	Name string `json:"name"`
	// Its phase, with the reason in parentheses if it has one: Failed (Evicted).
	Phase string `json:"phase"`
	// The node on which it runs. It is absent before the pod is scheduled.
	Node string `json:"node,omitempty"`
	// Its IP address. It is absent before the pod has one.
	IP string `json:"ip,omitempty"`
	// Its init containers, and then its containers.
	Containers []Container `json:"containers"`

	// Object is the pod as it was read.
	Object *corev1.Pod `json:"-"`
}

// A Container is the status of a container.
type Container struct {
	// The name of the container.
	Name string `json:"name"`
	// Whether it is an init container.
	Init bool `json:"init,omitempty"`
	// Whether it runs under the supervisor.
	Wrapped bool `json:"wrapped"`
	// Waiting, Running or Terminated, as the kubelet says. It is absent before the kubelet
	// says something.
	State string `json:"state,omitempty"`
	// Why the container is in this state, as the kubelet says.
	Reason string `json:"reason,omitempty"`
	// What the kubelet says about the reason, or the termination message of a container that has
	// ended.
	Message string `json:"message,omitempty"`
	// Since when the container is in this state.
	Since time.Time `json:"since,omitzero"`
	// The exit code of a container that has ended.
	ExitCode *int32 `json:"exitCode,omitempty"`
	// How often it was restarted.
	Restarts int32 `json:"restarts,omitempty"`
	// Whether it is ready.
	Ready bool `json:"ready,omitempty"`
	// The run before the last restart.
	Previous *Run `json:"previous,omitempty"`
	// What the supervisor says. It is absent if the supervisor isn't asked, or doesn't answer.
	Supervisor *Supervisor `json:"supervisor,omitempty"`
	// The container of the step whose end a step of a TaskRun waits for.
	After string `json:"after,omitempty"`
	// Why the supervisor didn't answer.
	Unanswered string `json:"unanswered,omitempty"`

	turn  *pod.Turn // of a step
	stale bool      // it runs no longer, and the kubelet has yet to say so
}

// A Run is a run of a container that has ended, as the kubelet says.
type Run struct {
	// The exit code of the container.
	ExitCode int32 `json:"exitCode"`
	// Why the container has ended.
	Reason string `json:"reason,omitempty"`
	// The termination message.
	Message string `json:"message,omitempty"`
	// Since when it has ended.
	Since time.Time `json:"since,omitzero"`
	// What the supervisor has left as its termination message, in the place of message.
	Supervisor *Supervisor `json:"supervisor,omitempty"`
}

// A Supervisor is what the supervisor says of itself, as in docs/reference.md#status.
type Supervisor struct {
	// What it does: Waiting, BeforeStart, Paused, Running, Stopping or Finished.
	Phase string `json:"phase"`
	// Where the container pauses.
	Paused string `json:"paused,omitempty"`
	// Since when it waits.
	WaitingSince time.Time `json:"waitingSince,omitzero"`
	// What it waits for.
	WaitingFor []Unmet `json:"waitingFor,omitempty"`
	// When the command was started.
	Started time.Time `json:"started,omitzero"`
	// Whether the startup probe has succeeded.
	StartupProbe string `json:"startupProbe,omitempty"`
	// When the command ended.
	Finished time.Time `json:"finished,omitzero"`
	// Why the container ended.
	Reason string `json:"reason,omitempty"`
	// The exit code of the container.
	ExitCode *int `json:"exitCode,omitempty"`
	// The exit code of the command itself.
	Command *int `json:"commandExitCode,omitempty"`
	// The signal that killed the command.
	Signal string `json:"signal,omitempty"`
	// How many processes the kernel's out-of-memory killer has killed.
	OOMKills int `json:"oomKills,omitempty"`
	// What the supervisor has written to stderr.
	Message string `json:"message,omitempty"`
	// What has become of the output of a container that sends it.
	Logs json.RawMessage `json:"logs,omitempty"`
}

// An Unmet is a container or a URL that a container waits for.
type Unmet struct {
	// The container.
	Container string `json:"container,omitempty"`
	// The state of it that is waited for.
	Condition string `json:"condition,omitempty"`
	// The URL.
	URL string `json:"url,omitempty"`
	// The state that was last seen.
	Seen string `json:"seen,omitempty"`
}

// A Reader reads statuses.
type Reader struct {
	objects.Client
	// Newest bounds the pods of an object that are read and asked: the newest ones. 0 is for all.
	Newest int
	// Kept keeps the answers of supervisors. Without it, they are asked each time.
	Kept *Kept
	// Exec runs a command of the supervisor in a container, and returns its output.
	Exec func(ctx context.Context, pod, container string, command ...string) (stdout []byte, err error)
}

// NewReader returns a Reader that asks supervisors as kubectl exec does.
func NewReader(c *objects.Client) *Reader { return &Reader{Client: *c, Exec: executor(*c)} }

// ReadAll reads the status of all pods of several objects. It returns an error beside the
// reports, of which those of objects that can't be read say why.
func (r *Reader) ReadAll(ctx context.Context, targets []target.Target) (a Answers, err error) {
	var failures []error
	for _, t := range targets {
		report, err := r.Read(ctx, t)
		if err != nil {
			failures = append(failures, err)
			report = &Report{Target: t.String(), Namespace: r.Namespace, Pods: []Pod{}, Error: err.Error()}
		}
		a.Answers = append(a.Answers, report)
	}
	return a, errors.Join(failures...)
}

// Read reads the status of all pods of an object. If a container has just ended, the kubelet
// is given the time to say so.
func (r *Reader) Read(ctx context.Context, t target.Target) (*Report, error) {
	report, err := r.read(ctx, t)
	if err != nil || !report.isStale() {
		return report, err
	}
	select {
	case <-ctx.Done():
		return report, nil
	case <-time.After(kubeletsDelay):
		return r.read(ctx, t)
	}
}

// isStale reports whether a container has ended that the kubelet takes for running.
func (r *Report) isStale() bool {
	return slices.ContainsFunc(r.Pods, func(p Pod) bool {
		return slices.ContainsFunc(p.Containers, func(c Container) bool { return c.stale })
	})
}

func (r *Reader) read(ctx context.Context, t target.Target) (*Report, error) {
	report := &Report{Target: t.String(), Namespace: r.Namespace}
	pods, err := r.podsOf(ctx, t, report)
	if err != nil {
		return nil, err
	}
	if r.Newest > 0 {
		report.Older = max(0, len(pods)-r.Newest)
		pods = pods[report.Older:]
	}
	report.Pods = make([]Pod, len(pods))
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var asked sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for at := range pods {
		report.Pods[at] = statusOf(&pods[at])
		for index := range report.Pods[at].Containers {
			c := &report.Pods[at].Containers[index]
			if c.State != running || !c.Wrapped {
				continue
			}
			asked.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				var err error
				if c.Supervisor, err = r.askAbout(asking, &pods[at], c); err != nil {
					c.Unanswered, c.stale = err.Error(), errors.Is(err, errEnded)
				}
				if c.waitsForTurn() {
					c.After = c.turn.After
				}
			})
		}
	}
	asked.Wait()
	return report, nil
}

func (r *Reader) podsOf(ctx context.Context, t target.Target, report *Report) (pods []corev1.Pod, err error) {
	if t.Name == target.Pod {
		var p corev1.Pod
		if err := r.Get(ctx, t, &p); err != nil {
			return nil, err
		}
		report.ended = true
		return []corev1.Pod{p}, nil
	}
	if t.Object == "CronJob" {
		return nil, fmt.Errorf("%s has no pods itself: ask about one of its Jobs, job/NAME", t)
	}
	var w objects.Workload
	if err := r.Get(ctx, t, &w); err != nil {
		return nil, err
	}
	if pods, err = r.Pods(ctx, t, &w); err != nil {
		return nil, fmt.Errorf("listing the pods of %s in namespace %q: %w", t, r.Namespace, err)
	}
	report.ended, report.isRun = w.Ended(), t.Ends
	slices.Reverse(pods) // as in a timeline
	return pods, nil
}

// askAbout asks the supervisor of a container, unless its answer is kept.
func (r *Reader) askAbout(ctx context.Context, p *corev1.Pod, c *Container) (*Supervisor, error) {
	if r.Kept != nil {
		return r.Kept.ask(ctx, r, p, c)
	}
	return r.ask(ctx, p.Name, c.Name)
}

// ask asks the supervisor of a container.
func (r *Reader) ask(ctx context.Context, pod, container string) (*Supervisor, error) {
	answer, err := r.exec(ctx, pod, container, "status")
	if err != nil {
		return nil, err
	}
	var s Supervisor
	if err := json.Unmarshal(answer, &s); err != nil {
		return nil, fmt.Errorf("reading its answer: %w", err)
	}
	return &s, nil
}

// exec runs a command of the supervisor.
func (r *Reader) exec(ctx context.Context, pod, container string, command ...string) ([]byte, error) {
	answer, err := r.Exec(ctx, pod, container, command...)
	switch {
	case isForbidden(err):
		return nil, errors.New("you may not (kubectl auth can-i create pods/exec)")
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("it doesn't answer within %v", patience)
	case hasEnded(err):
		return nil, errEnded
	}
	return answer, err
}

// Ended reports whether all of the pods have ended, and no others follow.
func (a Answers) Ended() bool {
	return !slices.ContainsFunc(a.Answers, func(r *Report) bool { return !r.hasEnded() })
}

func (r *Report) hasEnded() bool {
	return r.ended && !slices.ContainsFunc(r.Pods, func(p Pod) bool {
		return !strings.HasPrefix(p.Phase, string(corev1.PodSucceeded)) && !strings.HasPrefix(p.Phase, string(corev1.PodFailed))
	})
}
