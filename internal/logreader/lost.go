// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
)

// containerSpec is the specification of a container.
type containerSpec struct {
	Name          string
	Command, Args []string
}

// sends reports whether admission has wrapped the container so that it sends its output
// (pkg/pod, which would bring a client of registries along).
func (c containerSpec) sends() bool {
	if !slices.Equal(c.Command, []string{"/entrypointer/bin/entrypoint"}) {
		return false
	}
	own := c.Args
	if end := slices.Index(own, "--"); end >= 0 {
		own = own[:end]
	}
	return slices.ContainsFunc(own, func(arg string) bool { return strings.HasPrefix(arg, "-logs=") })
}

// An endedRun is a run of a container that sends its output, and has ended.
type endedRun struct {
	pod, podUID, container string
	began, ended           time.Time
	reason                 string // such as OOMKilled
	isPrevious             bool   // the container has started again
	isEmpty                bool   // the log service has its streams, without a byte; its end isn't known
}

// startTolerance is by how much a stream may begin before the start of its container: the
// runtime looks at the clock when the process runs already.
const startTolerance = 2 * time.Second

// isOf reports whether a stream is of the run.
func (r endedRun) isOf(s Stream) bool {
	if s.PodUID != r.podUID || s.Container != r.container {
		return false
	}
	began := s.began()
	return began == 0 || began >= r.began.Add(-startTolerance).UnixMilli() && began < r.ended.Add(time.Second).UnixMilli()
}

// warning returns the warning about a run of which the log service has nothing.
func (r endedRun) warning() string {
	if r.isEmpty {
		return fmt.Sprintf("The log service has nothing of container %q of pod %q, which began at %s: it could store nothing before the container's end.", r.container, r.pod, r.began.UTC().Format(time.RFC3339))
	}
	where := ""
	if r.isPrevious {
		where = " --previous"
	}
	return fmt.Sprintf("The log service has nothing of container %q of pod %q, which ended at %s (%s): it didn't reach the service before its end, or retention has deleted its log. See kubectl logs %s -c %s%s.",
		r.container, r.pod, r.ended.UTC().Format(time.RFC3339), cmp.Or(r.reason, "unknown reason"), r.pod, r.container, where)
}

// endedRuns returns the runs of the pod's containers that have ended. A container whose
// start isn't known may never have run.
func (p *podObject) endedRuns() (runs []endedRun) {
	for _, spec := range p.Spec.Containers {
		at := slices.IndexFunc(p.Status.ContainerStatuses, func(s runStatus) bool { return s.Name == spec.Name })
		if at < 0 || !spec.sends() {
			continue
		}
		status := p.Status.ContainerStatuses[at]
		for _, run := range []*terminated{status.LastState.Terminated, status.State.Terminated} {
			if run == nil {
				continue
			}
			began, err1 := time.Parse(time.RFC3339, run.StartedAt)
			ended, err2 := time.Parse(time.RFC3339, run.FinishedAt)
			if errors.Join(err1, err2) != nil || began.Unix() <= 0 {
				continue
			}
			runs = append(runs, endedRun{p.Metadata.Name, p.Metadata.UID, spec.Name, began, ended, run.Reason, run == status.LastState.Terminated, false})
		}
	}
	return runs
}

// pods returns the pods whose logs are asked for that exist, and none to users who may not get
// them.
func (c *Client) pods(ctx context.Context, o Options) ([]podObject, error) {
	pods, err := c.existing(ctx, o)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("asking for the pods of %s: %w", o.whose(), err)
	}
	return pods, nil
}

// existing returns the pods whose logs are asked for that exist.
func (c *Client) existing(ctx context.Context, o Options) ([]podObject, error) {
	request := c.REST.Get().AbsPath("/api/v1/namespaces", c.Namespace, "pods")
	isOne := false
	switch t := o.Target; {
	case o.Selector != nil:
		request = request.Param("labelSelector", o.Selector.String())
		if key, _ := loglabels.Required(o.Selector); key == "" {
			request = request.Param("limit", strconv.Itoa(MostSelected+1))
		}
	case t.Name == target.Pod:
		request, isOne = request.Suffix(t.Of), true
	default:
		selector, err := c.podSelector(ctx, t)
		if err != nil || selector == "" {
			return nil, err
		}
		request = request.Param("labelSelector", selector)
	}
	answer, err := request.SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var list struct{ Items []podObject }
	if isOne {
		list.Items = make([]podObject, 1)
		err = json.Unmarshal(answer, &list.Items[0])
	} else {
		err = json.Unmarshal(answer, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the response: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(p podObject) bool { return o.Selector == nil && !o.Target.Controls(p.Metadata.OwnerReferences) }), nil
}

// podSelector returns the labels of the pods of an object, "" for a CronJob, whose Jobs have
// the pods. An object with a selector of its own has to exist.
func (c *Client) podSelector(ctx context.Context, t target.Target) (string, error) {
	var w objects.Workload
	if t.Label == "" {
		if err := (&objects.Client{REST: c.REST, Namespace: c.Namespace}).Get(ctx, t, &w); err != nil {
			return "", err
		}
	}
	return objects.SelectorOf(t, &w)
}

// A listing is what is known of a target: the pods that exist, and then the streams that the log
// service has. In this order, all is listed that an ended container has sent.
type listing struct {
	pods    []podObject
	errPods error // why they aren't known
	streams []Stream
	more    bool // the log service has others
}

// listing lists the pods and the streams of a target. Without an answer of the API server, it asks
// for nothing else.
func (c *Client) listing(ctx context.Context, o Options) (l listing, err error) {
	l.pods, l.errPods = c.pods(ctx, o)
	if _, is := errors.AsType[*url.Error](l.errPods); is {
		return l, l.errPods
	}
	l.streams, l.more, err = c.list(ctx, o)
	return l, err
}

// lostRuns returns the selected runs of which the log service has nothing, or no byte. It is unknown
// which these are if the service has more streams than are listed. A container that prints nothing
// has at least events there.
func (c *Client) lostRuns(ctx context.Context, o Options, l listing) (lost []endedRun, err error) {
	if l.errPods != nil || l.more {
		return nil, l.errPods
	}
	for _, p := range l.pods {
		for _, run := range p.endedRuns() {
			if (o.Container == "" || run.container == o.Container) && (run.isPrevious || !o.Previous) && o.Printer.overlaps(run.began, run.ended) && !slices.ContainsFunc(l.streams, run.isOf) {
				lost = append(lost, run)
			}
		}
	}
	empty, err := c.emptyRuns(ctx, o, l.streams)
	return append(lost, empty...), err
}

// emptyRuns returns the selected runs that have ended, and of which the log service has the stream
// of events alone, without a byte: it couldn't store any. If it has another stream, that is known
// to be cut off.
func (c *Client) emptyRuns(ctx context.Context, o Options, all []Stream) (empty []endedRun, err error) {
	if o.Events || o.Previous {
		return nil, nil
	}
	run := func(s Stream) [3]string { return [3]string{s.PodUID, s.Container, s.Start} }
	prints := map[[3]string]bool{}
	for _, s := range all {
		prints[run(s)] = prints[run(s)] || s.Name != events
	}
	for _, s := range all {
		began := time.UnixMilli(s.began())
		if prints[run(s)] || o.Container != "" && s.Container != o.Container || !o.Printer.overlaps(began, began) {
			continue
		}
		state, err := c.state(ctx, s.ID)
		if err != nil {
			return nil, err
		}
		if len(state.stored)+len(state.dropped)+len(state.deleted)+len(state.missing) > 0 {
			continue
		}
		of, err := c.containerState(ctx, s)
		if err != nil {
			return nil, err
		}
		if of == stateEnded {
			empty = append(empty, endedRun{pod: s.Pod, podUID: s.PodUID, container: s.Container, began: began, isEmpty: true})
		}
	}
	return empty, nil
}

// withLost warns of lost runs, and adds them to the error of printing.
func withLost(err error, lost []endedRun, warn func(string)) error {
	cutOff, is := errors.AsType[*CutOffError](err)
	if err != nil && !is {
		return err
	}
	streams := len(lost)
	if is {
		streams += cutOff.Streams
	}
	for _, run := range lost {
		warn(run.warning())
	}
	return cutOffError(streams)
}
