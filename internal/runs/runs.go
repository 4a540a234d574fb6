// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package runs lists, for the page of the kubectl plugin, what runs or has run in a
// namespace: the objects that have pods, the pods, and what the log service knows of those
// that are gone. It asks with the rights of kubectl's user.
package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/logreader"
	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
)

const (
	// MostOfKind bounds the objects of a kind that are listed, and the pods with logs.
	MostOfKind = 2000
	// atOnce bounds the kinds that are listed at the same time.
	atOnce = 4
	// patience is how long all lists may take, and logPatience that of the log service.
	patience    = 30 * time.Second
	logPatience = 15 * time.Second
	// mostBytes bounds a sum of bytes.
	mostBytes = 1 << 60
	// mostAsked bounds the objects that are read one by one.
	mostAsked = 50
)

// A State is what an object is in, whatever its kind.
type State string

// The states.
const (
	Waiting   State = "waiting" // hasn't begun
	Running   State = "running"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	Ready     State = "ready"     // of what has no end
	NotReady  State = "not ready" // of what has no end
	Gone      State = "gone"      // there are logs, and no object
	Unknown   State = "unknown"
)

// A Run is an object that has pods, or a pod.
type Run struct {
	target.Target

	State State
	// Reason is why, in the words of the object's status. A tenant may have written it.
	Reason string
	// Began is when it started, or was created. Of one that is gone, it is when its first
	// container began to print.
	Began time.Time
	// Ended is zero if it hasn't ended. Of one that is gone, it is when its last container
	// began to print.
	Ended  time.Time
	Labels map[string]string
	// Part reports whether it belongs to another object that has a page: a pod of a Job, for
	// instance, or a TaskRun of a PipelineRun.
	Part bool
	// Logged reports whether the log service has logs of it.
	Logged bool
	// Printed is how much its containers have printed.
	Printed Printed
}

// A Printed is how many bytes containers have printed.
type Printed struct {
	Bytes int64
	// IsKnown reports whether the log service counts bytes of it, and IsMore whether there are
	// more: of containers whose end isn't known yet, or of pods that weren't listed.
	IsKnown, IsMore bool
}

// add adds the bytes of a pod.
func (p *Printed) add(l *logreader.PodLogs) {
	if l.Bytes == nil {
		p.IsMore = true
		return
	}
	p.IsKnown = true
	p.IsMore = p.IsMore || !l.Complete || l.Partial
	p.Bytes = min(p.Bytes+*l.Bytes, mostBytes) // containers tell it
}

// HasEnded reports whether nothing more is to be expected. What has no end, such as a
// Deployment, can recover from a failure.
func (r *Run) HasEnded() bool {
	return r.State == Gone || r.Ends && (r.State == Succeeded || r.State == Failed)
}

// A List is what runs, or has run, in a namespace.
type List struct {
	// Runs has the newest first.
	Runs []Run
	// Absent are the kinds that the cluster doesn't have.
	Absent []string
	// Notes say what isn't listed, and why.
	Notes []string
}

// A Reader lists runs.
type Reader struct{ objects.Client }

// Kinds returns the kinds that are listed.
func Kinds() []target.Kind {
	return slices.DeleteFunc(target.All(), func(k target.Kind) bool { return k.Object == "ReplicaSet" || k.Object == "CronJob" })
}

// List lists the runs with labels, nil for all, of the kind of a name, "" for all. What can't
// be listed is noted; if nothing can, that is an error.
func (r *Reader) List(ctx context.Context, kind string, selector labels.Selector) (*List, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var kinds []target.Kind
	for _, k := range Kinds() {
		if kind == "" || k.Name == kind {
			kinds = append(kinds, k)
		}
	}
	// The log service first: what is made between the lists would be taken for gone otherwise.
	logs, errLogs := r.listLogs(ctx, selector)
	parts := make([]part, len(kinds))
	var asked sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for at, k := range kinds {
		asked.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			parts[at] = r.part(ctx, k, selector)
		})
	}
	asked.Wait()
	list := joined(parts)
	listed := len(list.Runs)
	if list.addLogs(parts, selector, logs, errLogs); len(list.Runs) == 0 {
		if err := noAnswer(parts, errLogs); err != nil {
			return nil, fmt.Errorf("listing the runs of namespace %q: %w", r.Namespace, err)
		}
	}
	r.readUnknown(ctx, parts, list.Runs[listed:])
	slices.SortStableFunc(list.Runs, func(a, b Run) int {
		return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(a.Target.String(), b.Target.String()))
	})
	return list, nil
}

// Get reads one run. Of one that is gone, the log service tells.
func (r *Reader) Get(ctx context.Context, t target.Target) (*Run, error) {
	var found object
	err := r.Client.Get(ctx, t, &found)
	if err == nil {
		run := found.run(t.Kind)
		return &run, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, err
	}
	client := &logreader.Client{REST: r.REST, Namespace: r.Namespace}
	logs, errLogs := client.ListPods(ctx, logreader.PodsOptions{Target: t, Limit: MostOfKind})
	if errLogs != nil || len(logs.Pods) == 0 {
		return nil, err
	}
	run := &Run{Target: t, State: Gone, Logged: true}
	for _, p := range logs.Pods {
		run.extend(&p)
		run.Printed.add(&p)
	}
	return run, nil
}

func (r *Reader) listLogs(ctx context.Context, selector labels.Selector) (logreader.Pods, error) {
	ctx, cancel := context.WithTimeout(ctx, logPatience)
	defer cancel()
	client := &logreader.Client{REST: r.REST, Namespace: r.Namespace}
	return client.ListPods(ctx, logreader.PodsOptions{Selector: selector, Limit: MostOfKind})
}

// readUnknown reads some of the objects that weren't listed, and of which it isn't known
// whether they are gone: those that have pods first, and none of kinds that couldn't be listed.
func (r *Reader) readUnknown(ctx context.Context, parts []part, unlisted []Run) {
	var unknown []*Run
	for at := range unlisted {
		one := &unlisted[at]
		if one.State == Unknown && slices.ContainsFunc(parts, func(p part) bool { return p.kind.Name == one.Name && p.err == nil }) {
			unknown = append(unknown, one)
		}
	}
	slices.SortStableFunc(unknown, func(a, b *Run) int {
		rank := map[bool]int{true: 1}
		return cmp.Compare(rank[a.Name == target.Pod], rank[b.Name == target.Pod])
	})
	var asked sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for _, one := range unknown[:min(mostAsked, len(unknown))] {
		asked.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			var found object
			switch err := r.Client.Get(ctx, one.Target, &found); {
			case err == nil:
				printed := one.Printed
				*one = found.run(one.Kind)
				one.Logged, one.Printed = true, printed
			case apierrors.IsNotFound(err):
				one.State = Gone
			}
		})
	}
	asked.Wait()
}

// A part is the list of a kind.
type part struct {
	kind target.Kind
	runs []Run
	more bool
	err  error
}

func (r *Reader) part(ctx context.Context, k target.Kind, selector labels.Selector) part {
	p := part{kind: k}
	request := func() *rest.Request {
		list := r.REST.Get().AbsPath(k.Path, "namespaces", r.Namespace, k.Plural)
		if selector != nil {
			list = list.Param("labelSelector", selector.String())
		}
		return list
	}
	p.more, p.err = objects.Each(ctx, request, MostOfKind, func(o object) { p.runs = append(p.runs, o.run(k)) })
	return p
}

func joined(parts []part) *List {
	list := &List{}
	for _, p := range parts {
		list.Runs = append(list.Runs, p.runs...)
		switch {
		case apierrors.IsNotFound(p.err):
			list.Absent = append(list.Absent, p.kind.Plural)
		case apierrors.IsForbidden(p.err):
			list.Notes = append(list.Notes, fmt.Sprintf("You may not list %s (kubectl auth can-i list %s).", p.kind.Plural, p.kind.Plural))
		case p.err != nil:
			list.Notes = append(list.Notes, fmt.Sprintf("Listing %s: %v.", p.kind.Plural, p.err))
		case p.more:
			list.Notes = append(list.Notes, fmt.Sprintf("There are more than %d %s, and the rest isn't listed: choose by labels.", len(p.runs), p.kind.Plural))
		}
	}
	return list
}

// noAnswer returns an error unless a kind was listed.
func noAnswer(parts []part, errLogs error) error {
	var failures []error
	for _, p := range parts {
		if p.err == nil || errLogs == nil {
			return nil
		}
		if !apierrors.IsNotFound(p.err) {
			failures = append(failures, p.err)
		}
	}
	if len(failures) == 0 {
		return nil
	}
	return failures[0]
}

// addLogs marks the runs that have logs, and adds those that have nothing else.
func (l *List) addLogs(parts []part, selector labels.Selector, logs logreader.Pods, err error) {
	if err != nil {
		l.Notes = append(l.Notes, fmt.Sprintf("What is gone isn't listed: %v.", err))
		return
	}
	isCut := logs.Remaining > 0 || logs.Incomplete
	if isCut {
		l.Notes = append(l.Notes, fmt.Sprintf("The log service knows more pods than these %d, and the rest isn't listed: choose by labels.", len(logs.Pods)))
	}
	unlisted := unlistedStates(parts, selector)
	at := map[string]int{}
	for index := range l.Runs {
		at[l.Runs[index].Target.String()] = index
	}
	for _, p := range logs.Pods {
		for _, named := range owners(&p) {
			index, is := at[named]
			if !is {
				run, isListed := unlisted.run(named, &p)
				if !isListed {
					continue
				}
				index = len(l.Runs)
				at[named] = index
				l.Runs = append(l.Runs, run)
			}
			run := &l.Runs[index]
			run.Logged = true
			run.Printed.add(&p)
			run.Printed.IsMore = run.Printed.IsMore || isCut && run.Name != target.Pod
			if run.State == Gone || run.State == Unknown {
				run.extend(&p)
			}
		}
	}
}

// A states has the state of what isn't listed, by the names of the kinds that are.
type states map[string]State

// unlistedStates returns the state of what isn't among the objects of kinds. Where a kind
// couldn't be listed as a whole, it isn't known whether an object is gone. Nor is it with a
// selector: the objects needn't have the labels of their pods, nor pods those that admission
// makes for their logs.
func unlistedStates(parts []part, selector labels.Selector) states {
	unlisted := states{}
	for _, p := range parts {
		isAbsent := apierrors.IsNotFound(p.err)
		isSelected := selector != nil && (p.kind.Name != target.Pod || !isOfPods(selector))
		if unlisted[p.kind.Name] = Gone; !isAbsent && (p.more || p.err != nil || isSelected) {
			unlisted[p.kind.Name] = Unknown
		}
	}
	return unlisted
}

// isOfPods reports whether pods have all labels of a selector that their logs have.
func isOfPods(selector labels.Selector) bool {
	requirements, _ := selector.Requirements()
	return !slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return !slices.Contains(loglabels.OfPods(), r.Key()) })
}

// run returns a run of which the log service has a pod. It reports false for kinds that aren't
// listed.
func (unlisted states) run(named string, p *logreader.PodLogs) (r Run, isListed bool) {
	t, err := target.Parse(named, Kinds())
	state := unlisted[t.Name]
	if err != nil || state == "" {
		return r, false
	}
	isPart := t.Name == target.Pod && p.Owner != "" || t.Label == loglabels.TaskRun && p.Labels[loglabels.PipelineRun] != ""
	return Run{Target: t, State: state, Part: isPart}, true
}

// owners returns a pod and the objects to which it belongs, as TYPE/NAME.
func owners(p *logreader.PodLogs) []string {
	all := []string{target.Pod + "/" + p.Name}
	if p.Owner != "" {
		all = append(all, p.Owner)
	}
	for _, k := range Kinds() {
		if k.Label != "" && p.Labels[k.Label] != "" && k.Name+"/"+p.Labels[k.Label] != p.Owner {
			all = append(all, k.Name+"/"+p.Labels[k.Label])
		}
	}
	return all
}

// extend adds to a run that is gone what the log service knows of one of its pods.
func (r *Run) extend(p *logreader.PodLogs) {
	if r.Began.IsZero() || p.First.Before(r.Began) {
		r.Began = p.First
	}
	if p.Last.After(r.Ended) {
		r.Ended = p.Last
	}
	if r.Labels == nil {
		r.Labels = p.Labels
	}
}

// Matches reports whether the name, the state, its reason or a label contains a text, in
// whatever case.
func (r *Run) Matches(text string) bool {
	text = strings.ToLower(text)
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	if has(r.Target.String()) || has(string(r.State)) || has(r.Reason) {
		return true
	}
	for key, value := range r.Labels {
		if has(key + "=" + value) {
			return true
		}
	}
	return false
}

// ErrSelector is the error of labels that can't be read.
var ErrSelector = errors.New("reading the labels")

// ParseSelector parses labels as kubectl's -l has them. It returns nil for none.
func ParseSelector(text string) (labels.Selector, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", ErrSelector, text, err)
	}
	return selector, nil
}

// isPart reports whether an object belongs to another one that has a page.
func isPart(owners []metav1.OwnerReference) bool {
	return slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool {
		return o.Controller != nil && *o.Controller && slices.Contains(wholes, o.Kind)
	})
}

// wholes are the kinds of controllers that have a page, or whose own controllers have.
var wholes = []string{"PipelineRun", "CustomRun", "TaskRun", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "Configuration", "Service", "Revision", "Workflow"}
