// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
)

// A Cluster is the API server, as its user sees a namespace.
type Cluster struct{ objects.Client }

// An inquiry is what is known of one object so far.
type inquiry struct {
	*Cluster
	target    target.Target
	answer    *Answer
	workload  objects.Workload  // the target, unless it is a pod
	namespace *corev1.Namespace // nil if it can't be read
	optedIn   metav1.Time       // since when it has its annotation; zero if that is unknown
	operators *config.Config    // the operator's; nil if it can't be read
	made      *corev1.Pod       // one that is created now; nil if it would be refused, or is unknown
	// isLike reports whether a pod is of the same kind as made; nil stands for all.
	isLike func(*corev1.Pod) bool
}

// Ask asks about the pods of an object: with up to seven requests, whatever their number.
func (c *Cluster) Ask(ctx context.Context, t target.Target) (*Answer, error) {
	_, answer, err := c.AskForPod(ctx, t)
	return answer, err
}

// AskForPod is Ask, and also returns the pod as it would be created now, or else the newest
// that exists, nil if there is neither.
func (c *Cluster) AskForPod(ctx context.Context, t target.Target) (*corev1.Pod, *Answer, error) {
	q, err := c.inquire(ctx, t.String())
	if err != nil {
		return nil, nil, err
	}
	q.target = t
	if t.Name == target.Pod {
		p, err := q.askOfPod(ctx)
		return p, q.answer, err
	}
	o := &q.workload
	if err := q.Get(ctx, t, o); err != nil {
		return nil, nil, err
	}
	pods, err := q.podsOf(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	trial, err := q.trialOf(ctx, o, pods)
	if err != nil {
		return nil, nil, err
	}
	err = q.compare(ctx, trial, pods)
	if o.Template() != nil {
		q.answer.warnOfMetadata(o.Annotations)
	}
	if q.made == nil && len(pods) > 0 {
		return &pods[0], q.answer, err
	}
	return q.made, q.answer, err
}

// askOfPod asks about one pod, and about one that would be created like it now.
func (q *inquiry) askOfPod(ctx context.Context) (*corev1.Pod, error) {
	var p corev1.Pod
	if err := q.Get(ctx, q.target, &p); err != nil {
		return nil, err
	}
	trial := trialLike(&p)
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		trial = nil // the kubelet makes it, of a file
	}
	return &p, q.compare(ctx, trial, []corev1.Pod{p})
}

// Preview asks about the pod of a manifest, and returns it as it would be, nil if it would
// be refused, or if the user may not know.
func (c *Cluster) Preview(ctx context.Context, m Manifest) (*corev1.Pod, *Answer, error) {
	// The namespace is of a file, and a request would go elsewhere by a wrong one.
	if wrong := validation.IsDNS1123Label(c.Namespace); len(wrong) > 0 {
		return nil, nil, fmt.Errorf("%q is no name of a namespace: %s", c.Namespace, wrong[0])
	}
	q, err := c.inquire(ctx, m.Name)
	if err != nil {
		return nil, nil, err
	}
	err = q.compare(ctx, m.Pod, nil)
	q.answer.warnOfMetadata(m.metadata)
	if q.made != nil {
		removeTokens(q.made)
	}
	return q.made, q.answer, err
}

// inquire begins to ask, with what is the same for all pods of the namespace.
func (c *Cluster) inquire(ctx context.Context, named string) (*inquiry, error) {
	q := &inquiry{Cluster: c, answer: &Answer{Target: named, Namespace: c.Namespace}}
	return q, errors.Join(q.readNamespace(ctx), q.readOperators(ctx))
}

// unknown notes what the API server doesn't answer, for lack of a right in the namespace.
func (q *inquiry) unknown(what, right string) {
	q.answer.Unknown = append(q.answer.Unknown, fmt.Sprintf("%s (kubectl -n %s auth can-i %s)", what, q.Namespace, right))
}

// readOperators reads the operator's configuration, as an operator may: it says which
// options all pods have by default. What it says wrongly isn't in force, and is left out.
func (q *inquiry) readOperators(ctx context.Context) error {
	var cm corev1.ConfigMap
	path := []string{"/api/v1/namespaces", objects.InjectorNamespace, "configmaps", config.Name}
	switch err := objects.Read(q.REST.Get().AbsPath(path...).Do(ctx), &cm); {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading ConfigMap %q in namespace %q: %w", config.Name, objects.InjectorNamespace, err)
	}
	q.operators = config.ValidOf(&cm)
	return nil
}

// readNamespace reads the namespace. A user who may not read it gets the rest of the
// answer.
func (q *inquiry) readNamespace(ctx context.Context) error {
	var namespace corev1.Namespace
	switch err := objects.Read(q.REST.Get().AbsPath("/api/v1/namespaces", q.Namespace).Do(ctx), &namespace); {
	case apierrors.IsForbidden(err):
		q.answer.Unknown = append(q.answer.Unknown, "whether the namespace opted in, and which options it sets: you may not get it (kubectl auth can-i get namespaces)")
		return nil
	case err != nil:
		return fmt.Errorf("reading namespace %q: %w", q.Namespace, err)
	}
	q.namespace, q.optedIn = &namespace, optedInAt(&namespace)
	return nil
}

// podsOf returns the pods of an object, the newest first.
func (q *inquiry) podsOf(ctx context.Context, o *objects.Workload) ([]corev1.Pod, error) {
	pods, err := q.Pods(ctx, q.target, o)
	switch {
	case apierrors.IsForbidden(err):
		q.answer.Unlisted = true
		q.unknown("which pods exist: you may not list them", "list pods")
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("listing the pods of %s: %w", q.target, err)
	}
	if q.target.Restarts { // their controllers leave evicted pods behind
		pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool {
			return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
		})
	}
	return pods, nil
}

// trialOf returns the pod that the object's controller would create now, nil if there is
// none to be known.
func (q *inquiry) trialOf(ctx context.Context, o *objects.Workload, pods []corev1.Pod) (*corev1.Pod, error) {
	switch q.target.Name {
	case "ksvc", "revision":
		return q.revisionsPod(ctx, o)
	case "taskrun", "pipelinerun", "workflow":
		if len(pods) == 0 {
			q.answer.Unknown = append(q.answer.Unknown, "what would happen to its pods: only its controller can make them, and none exists")
			return nil, nil
		}
		newest := pods[0].Name // the others may be of other tasks
		q.isLike = func(p *corev1.Pod) bool { return p.Name == newest }
		return trialLike(&pods[0]), nil
	}
	template := o.Template()
	if template == nil {
		return nil, fmt.Errorf("reading %s: it has no template for pods", q.target)
	}
	trial := fromTemplate(template, cmp.Or(q.target.Controller, q.target.Object), o.Name, string(o.UID))
	completeTrial(trial, o)
	return trial, nil
}

// revisionsPod returns the pod of a Revision, whose Deployment has the template with all
// that Knative adds.
func (q *inquiry) revisionsPod(ctx context.Context, o *objects.Workload) (*corev1.Pod, error) {
	revision := q.target.Of
	if q.target.Name == "ksvc" {
		revision = o.Status.LatestCreatedRevisionName
	}
	var all []objects.Workload
	_, err := objects.Each(ctx, q.WithLabels("/apis/apps/v1", "deployments", loglabels.Revision+"="+revision), 1, func(d objects.Workload) { all = append(all, d) })
	switch {
	case apierrors.IsForbidden(err):
		q.unknown("what would happen to its pods: you may not list Deployments, which have Knative's template", "list deployments")
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("listing the Deployment of revision %q: %w", revision, err)
	case len(all) == 0 || all[0].Spec.Template == nil:
		q.answer.Unknown = append(q.answer.Unknown, "what would happen to its pods: Knative hasn't created a Deployment for revision "+strconv.Quote(revision)+" yet")
		return nil, nil
	}
	d := all[0]
	q.isLike = func(p *corev1.Pod) bool { return p.Labels[loglabels.Revision] == revision }
	return fromTemplate(d.Spec.Template, "ReplicaSet", d.Name, string(d.UID)), nil
}

// compare decides on a pod that would be created now, and on those that exist.
func (q *inquiry) compare(ctx context.Context, trial *corev1.Pod, pods []corev1.Pod) error {
	if trial != nil {
		var err error
		if q.made, q.answer.Now, err = q.try(ctx, trial); err != nil {
			return err
		}
		if q.answer.Now != nil {
			q.answer.Now.of = trial
		}
		if err = q.readExplanation(ctx, trial); err != nil {
			return err
		}
	}
	for i := range pods {
		p := &pods[i]
		d := q.decisionOn(p)
		d.Pod, d.Created, d.of = p.Name, p.CreationTimestamp.Time, p
		d.Ended = p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if now := q.answer.Now; d.Reason == OlderThanOptIn && now != nil && now.Reason.isUnwrapped() {
			d.Reason = now.Reason // to create it anew would change nothing
		}
		for at := range d.Containers {
			d.Containers[at].State = stateOf(p, d.Containers[at].Name)
		}
		if q.isLike == nil || q.isLike(p) {
			d.Differs = differences(p, d, q.made, q.answer.Now)
			q.explainLikeNow(d)
		}
		q.advise(d)
		q.answer.Pods = append(q.answer.Pods, d)
	}
	if q.answer.Now != nil {
		q.advise(q.answer.Now)
	}
	q.answer.Wrapped = q.answer.IsWrapped() && !q.answer.IsUnknown()
	return nil
}
