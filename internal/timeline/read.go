// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/entrypointer/entrypointer/internal/logreader"
	"github.com/entrypointer/entrypointer/internal/podstatus"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

const (
	// mostPods bounds the pods of a timeline: the newest ones.
	mostPods = 100
	// patience is how long Events and the log service are waited for.
	patience = 30 * time.Second
	// mostNotes bounds the notes.
	mostNotes = 20
)

// A Reader reads timelines.
type Reader struct {
	podstatus.Reader
}

// note adds a note, once.
func (t *Timeline) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(t.Notes, text) && len(t.Notes) < mostNotes {
		t.Notes = append(t.Notes, text)
	}
}

// Read reads the timeline of an object's pods.
func (r *Reader) Read(ctx context.Context, t target.Target, now time.Time) (*Timeline, error) {
	to := &Timeline{Target: t.String(), Namespace: r.Namespace, Pods: []Pod{}, asked: now, isRun: slices.Contains([]string{loglabels.TaskRun, loglabels.PipelineRun, loglabels.Workflow}, t.Label)}
	newest := r.Reader
	newest.Newest = mostPods
	report, errGone := newest.Read(ctx, t)
	switch {
	case apierrors.IsNotFound(errGone) && (t.Label != "" || t.Name == target.Pod):
		report = &podstatus.Report{} // the log service may know it
	case errGone != nil:
		return nil, errGone
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r.readEnded(ctx, report.Pods)
	events := r.readEvents(ctx, report.Pods, to)
	records := r.readRecords(ctx, t, report.Pods, to)
	for at := range report.Pods {
		p := &report.Pods[at]
		uid := string(p.Object.UID)
		to.Pods = append(to.Pods, to.tell(witnessed{p, events[uid], records[uid], false, now}))
		delete(records, uid)
	}
	for _, uid := range slices.Sorted(maps.Keys(records)) {
		if gone := to.tell(witnessed{former(records[uid], t.Label), nil, records[uid], true, now}); len(gone.Sources) > 0 {
			to.Pods = append(to.Pods, gone)
		}
	}
	if len(to.Pods) == 0 && errGone != nil {
		return nil, errGone
	}
	slices.SortStableFunc(to.Pods, func(a, b Pod) int { return a.from().Compare(b.from()) })
	more := max(0, len(to.Pods)-mostPods)
	if to.Pods = to.Pods[more:]; report.Older+more > 0 {
		to.note("%d older pods are left out", report.Older+more)
	}
	var attempts map[string]attempt
	if errGone == nil {
		attempts = r.readTaskRuns(ctx, t, to)
	}
	to.complete(attempts)
	return to, nil
}

// readEnded reads pods again of which a container has ended since: it ran when the pod was
// read, and was gone when its supervisor was asked.
func (r *Reader) readEnded(ctx context.Context, pods []podstatus.Pod) {
	hasEnded := func(c podstatus.Container) bool { return strings.Contains(c.Unanswered, "container not found") }
	for at := range pods {
		p := &pods[at]
		if !slices.ContainsFunc(p.Containers, hasEnded) {
			continue
		}
		named, err := target.Parse(p.Name, target.All())
		if err != nil {
			continue
		}
		again, err := r.Reader.Read(ctx, named)
		if err == nil && len(again.Pods) == 1 && again.Pods[0].Object.UID == p.Object.UID {
			*p = again.Pods[0]
		}
	}
}

// complete derives what follows from the spans, and from the TaskRuns by their pods.
func (t *Timeline) complete(attempts map[string]attempt) {
	for at := range t.Pods {
		p := &t.Pods[at]
		p.attribute(attempts[p.Name])
		t.From = earliest(t.From, p.from())
		t.HandOffs = append(t.HandOffs, p.handOffs()...)
		for s := range p.all {
			if end := s.From.Add(s.length(t.asked)); end.After(t.To) {
				t.To = end
			}
		}
	}
}

func (r *Reader) readEvents(ctx context.Context, pods []podstatus.Pod, to *Timeline) map[string][]corev1.Event {
	if len(pods) == 0 {
		return nil
	}
	var all []*corev1.Pod
	for _, p := range pods {
		all = append(all, p.Object)
	}
	events, more, err := r.eventsOf(ctx, all)
	switch {
	case apierrors.IsForbidden(err):
		to.note("image pulls aren't known: you may not list Events (kubectl -n %s auth can-i list events)", r.Namespace)
	case err != nil:
		to.note("image pulls aren't known: %v", err)
	case more:
		to.note("there are more Events than are read: image pulls may be missing")
	}
	return events
}

// readRecords reads what the log service has of the starts of containers, by the UIDs of
// their pods. Of a run, and of what is gone, it also has pods that are gone. A Service may
// have had any number of them.
func (r *Reader) readRecords(ctx context.Context, t target.Target, pods []podstatus.Pod, to *Timeline) map[string][]logreader.Record {
	logs := &logreader.Client{REST: r.REST, Namespace: r.Namespace}
	var targets []target.Target
	for _, p := range pods {
		if named, err := target.Parse(target.Pod+"/"+p.Name, target.All()); err == nil && sends(p.Object) {
			targets = append(targets, named)
		}
	}
	if len(pods) == 0 || to.isRun && len(targets) > 0 {
		targets = []target.Target{t}
	}
	all := map[string][]logreader.Record{}
	for _, one := range targets {
		var warnings strings.Builder
		records, err := logs.Records(ctx, one, &warnings)
		for _, record := range records {
			all[record.PodUID] = append(all[record.PodUID], record)
		}
		if err != nil {
			to.note("the log service doesn't tell: %v", err)
		}
		if text := strings.TrimSpace(warnings.String()); text != "" {
			to.note("%s", text)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return all
}

// sends reports whether a container of a pod sends its events to the log service.
func sends(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(pod.Flags(c), func(flag string) bool { return strings.HasPrefix(flag, "-logs=") })
	})
}
