// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// A Cluster is the API server, as its user sees a namespace.
type Cluster struct{ objects.Client }

// An inquiry is what is known of one object so far.
type inquiry struct {
	*Cluster
	target    target.Target
	answer    *Answer
	namespace *corev1.Namespace // nil if it can't be read
	operators *config.Config    // the operator's; nil if it can't be read
	made      *corev1.Pod       // one that is created now; nil if it would be refused, or is unknown
}

// injectorsNamespace is where the injector has its configuration.
const injectorsNamespace = "entrypointer-system"

// Ask asks about the pods of an object: with up to six requests, whatever their number.
func (c *Cluster) Ask(ctx context.Context, t target.Target) (*Answer, error) {
	_, answer, err := c.AskForPod(ctx, t)
	return answer, err
}

// AskForPod is Ask, and also returns the pod as it would be created now, or else the newest
// that exists, nil if there is neither.
func (c *Cluster) AskForPod(ctx context.Context, t target.Target) (*corev1.Pod, *Answer, error) {
	q := &inquiry{Cluster: c, target: t, answer: &Answer{Target: t.String(), Namespace: c.Namespace}}
	if err := errors.Join(q.readNamespace(ctx), q.readOperators(ctx)); err != nil {
		return nil, nil, err
	}
	if t.Name == target.Pod {
		p, err := q.askOfPod(ctx)
		return p, q.answer, err
	}
	var o objects.Workload
	if err := q.Get(ctx, t, &o); err != nil {
		return nil, nil, fmt.Errorf("reading %s in namespace %q: %w", t, c.Namespace, err)
	}
	pods, err := q.podsOf(ctx, &o)
	if err != nil {
		return nil, nil, err
	}
	trial, err := q.trialOf(ctx, &o, pods)
	if err != nil {
		return nil, nil, err
	}
	err = q.compare(ctx, trial, pods)
	if q.made == nil && len(pods) > 0 {
		return &pods[0], q.answer, err
	}
	return q.made, q.answer, err
}

// askOfPod asks about one pod, and about one that would be created like it now.
func (q *inquiry) askOfPod(ctx context.Context) (*corev1.Pod, error) {
	var p corev1.Pod
	if err := q.Get(ctx, q.target, &p); err != nil {
		return nil, fmt.Errorf("reading %s in namespace %q: %w", q.target, q.Namespace, err)
	}
	return &p, q.compare(ctx, trialLike(&p), []corev1.Pod{p})
}

// Preview asks about a pod that doesn't exist yet, and returns it as it would be, nil if it
// would be refused, or if the user may not know.
func (c *Cluster) Preview(ctx context.Context, name string, trial *corev1.Pod) (*corev1.Pod, *Answer, error) {
	q := &inquiry{Cluster: c, answer: &Answer{Target: name, Namespace: c.Namespace}}
	if err := errors.Join(q.readNamespace(ctx), q.readOperators(ctx)); err != nil {
		return nil, nil, err
	}
	made, now, err := q.try(ctx, trial)
	if q.answer.Now = now; now != nil {
		now.Next = q.nextFor(now)
	}
	if made != nil {
		removeTokens(made)
	}
	return made, q.answer, err
}

// readOperators reads the operator's configuration, as an operator may: it says which
// options all pods have by default. What it says wrongly isn't in force, and is left out.
func (q *inquiry) readOperators(ctx context.Context) error {
	var cm corev1.ConfigMap
	path := []string{"/api/v1/namespaces", injectorsNamespace, "configmaps", config.Name}
	switch err := objects.Read(q.REST.Get().AbsPath(path...).Do(ctx), &cm); {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading ConfigMap %q in namespace %q: %w", config.Name, injectorsNamespace, err)
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
	q.namespace = &namespace
	return nil
}

// podsOf returns the pods of an object, the newest first.
func (q *inquiry) podsOf(ctx context.Context, o *objects.Workload) ([]corev1.Pod, error) {
	pods, omitted, err := q.Pods(ctx, q.target, o)
	switch {
	case apierrors.IsForbidden(err):
		q.answer.Unknown = append(q.answer.Unknown, "which pods exist: you may not list them (kubectl auth can-i list pods)")
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("listing the pods of %s: %w", q.target, err)
	}
	q.answer.Omitted = omitted
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
		return trialLike(&pods[0]), nil
	}
	template := o.Template()
	if template == nil {
		return nil, fmt.Errorf("reading %s: it has no template for pods", q.target)
	}
	return fromTemplate(template, cmp.Or(q.target.Controller, q.target.Object), o.Name, string(o.UID)), nil
}

// revisionsPod returns the pod of a Revision, whose Deployment has the template with all
// that Knative adds.
func (q *inquiry) revisionsPod(ctx context.Context, o *objects.Workload) (*corev1.Pod, error) {
	revision := q.target.Of
	if q.target.Name == "ksvc" {
		revision = o.Status.LatestCreatedRevisionName
	}
	var list struct{ Items []objects.Workload }
	err := q.List(ctx, "/apis/apps/v1", "deployments", loglabels.Revision+"="+revision, &list)
	switch {
	case apierrors.IsForbidden(err):
		q.answer.Unknown = append(q.answer.Unknown, "what would happen to its pods: you may not list Deployments, which have Knative's template (kubectl auth can-i list deployments)")
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("listing the Deployment of revision %q: %w", revision, err)
	case len(list.Items) == 0 || list.Items[0].Spec.Template == nil:
		q.answer.Unknown = append(q.answer.Unknown, "what would happen to its pods: Knative hasn't created a Deployment for revision "+strconv.Quote(revision)+" yet")
		return nil, nil
	}
	d := list.Items[0]
	return fromTemplate(d.Spec.Template, "ReplicaSet", d.Name, string(d.UID)), nil
}

// compare decides on a pod that would be created now, and on those that exist.
func (q *inquiry) compare(ctx context.Context, trial *corev1.Pod, pods []corev1.Pod) error {
	if trial != nil {
		var err error
		if q.made, q.answer.Now, err = q.try(ctx, trial); err != nil {
			return err
		}
	}
	for i := range pods {
		p := &pods[i]
		d := q.decisionOn(p)
		d.Pod, d.Created = p.Name, p.CreationTimestamp.Time
		if now := q.answer.Now; d.Reason == OlderThanOptIn && now != nil && !now.Reason.isWrapped() {
			d.Reason = now.Reason // to create it anew would change nothing
		}
		for at := range d.Containers {
			d.Containers[at].State = stateOf(p, d.Containers[at].Name)
		}
		d.Differs = differences(p, d, q.made, q.answer.Now)
		d.Next = q.nextFor(d)
		q.answer.Pods = append(q.answer.Pods, d)
	}
	if q.answer.Now != nil {
		q.answer.Now.Next = q.nextFor(q.answer.Now)
	}
	return nil
}

// optedInAt returns since when the namespace has had its annotation, as the API server
// remembers who has set which field; zero if it is unknown.
func (q *inquiry) optedInAt() (at metav1.Time) {
	for _, m := range q.namespace.ManagedFields {
		var fields struct {
			Metadata struct {
				Annotations map[string]json.RawMessage `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if m.FieldsV1 == nil || m.Time == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, set := fields.Metadata.Annotations["f:"+pod.InjectAnnotation]; set && at.Before(m.Time) {
			at = *m.Time
		}
	}
	return at
}

// decisionOn says what was decided on a pod, by the pod itself: the commands of its
// containers, and its status.
func (q *inquiry) decisionOn(p *corev1.Pod) *Decision {
	d := &Decision{Reason: q.reasonOf(p)}
	if !slices.ContainsFunc(p.Spec.Containers, pod.IsWrapped) {
		return d
	}
	_, delivery, _ := strings.Cut(pod.WithoutVersion(p.Annotations[pod.StatusAnnotation]), " by ")
	delivery, _, _ = strings.Cut(delivery, ";")
	delivery, _, _ = strings.Cut(delivery, ":")
	d.Delivery = pod.Delivery(delivery)
	// The settings of an existing pod are those of its own annotations, and of the
	// namespace as it is now.
	_, explained, err := q.explainer().Explain(q.Namespace, p)
	for index, c := range p.Spec.Containers {
		container := Container{Name: c.Name, Wrapped: pod.IsWrapped(c)}
		if err == nil && len(explained) > 0 {
			for _, s := range explained[index].Settings {
				container.Options = append(container.Options, Option{s.Option, s.Value, s.Source})
			}
			container.Why = explained[index].Why
		}
		switch {
		case container.Wrapped:
			container.Why = ""
		case container.Why == "":
			container.Why, container.Options = "its image couldn't be looked up", nil
		}
		d.Containers = append(d.Containers, container)
	}
	return d
}

// explainer returns an injector that knows what the user may know.
func (q *inquiry) explainer() *pod.Injector {
	operators, namespace := q.operators, q.namespace
	if operators == nil {
		operators = &config.Config{}
	}
	if namespace == nil {
		namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: q.Namespace}}
	}
	return operators.Injector(namespace)
}

// reasonOf says why a pod is as it is.
func (q *inquiry) reasonOf(p *corev1.Pod) Reason {
	status, _, _ := strings.Cut(pod.WithoutVersion(p.Annotations[pod.StatusAnnotation]), " ")
	status, _, _ = strings.Cut(status, ":")
	status, _, _ = strings.Cut(status, ";")
	wrapped := slices.ContainsFunc(p.Spec.Containers, pod.IsWrapped)
	switch {
	case status == string(pod.PartlyInjected):
		return Reason(status)
	case wrapped:
		return Reason(pod.Injected)
	case status != "" && status != string(pod.Injected):
		return Reason(status)
	default:
		return q.whyNoStatus(p)
	}
}

// whyNoStatus says why the injector has decided nothing on a pod.
func (q *inquiry) whyNoStatus(p *corev1.Pod) Reason {
	if q.namespace == nil {
		return Unexplained
	}
	scope := q.namespace.Annotations[pod.InjectAnnotation]
	since := q.optedInAt()
	switch {
	case scope == "":
		return NamespaceNotOptedIn
	case !p.CreationTimestamp.IsZero() && p.CreationTimestamp.Before(&since):
		return OlderThanOptIn
	case q.namespace.Labels[pod.InjectAnnotation] != scope:
		return LabelMissing
	case p.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return Reason(pod.MirrorPod)
	default:
		return DoesNotAsk
	}
}

// stateOf says what the kubelet says of a container.
func stateOf(p *corev1.Pod, container string) string {
	at := slices.IndexFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
	if at < 0 {
		return ""
	}
	switch s := p.Status.ContainerStatuses[at].State; {
	case s.Running != nil && !p.Status.ContainerStatuses[at].Ready:
		return "running, not ready"
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return fmt.Sprintf("ended with %d (%s)", s.Terminated.ExitCode, s.Terminated.Reason)
	case s.Waiting != nil:
		return "waiting: " + s.Waiting.Reason
	default:
		return ""
	}
}

// nextFor returns the command to type next.
func (q *inquiry) nextFor(d *Decision) string {
	switch d.Reason {
	case NamespaceNotOptedIn:
		return fmt.Sprintf("kubectl annotate namespace %s %s=true", q.Namespace, pod.InjectAnnotation)
	case LabelMissing:
		return "kubectl -n default get events --field-selector involvedObject.name=" + q.Namespace
	case InjectorDown:
		return "kubectl -n entrypointer-system get pods"
	case OlderThanOptIn:
		return q.restart()
	case DoesNotAsk, Reason(pod.NotOurs):
		if q.target.Restarts {
			return fmt.Sprintf(`kubectl -n %s patch %s -p '{"spec":{"template":{"metadata":{"annotations":{"%s":"true"}}}}}'`, q.Namespace, q.target, pod.InjectAnnotation)
		}
	}
	if len(d.Differs) > 0 {
		return q.restart()
	}
	return ""
}

func (q *inquiry) restart() string {
	if !q.target.Restarts {
		return ""
	}
	return fmt.Sprintf("kubectl -n %s rollout restart %s", q.Namespace, q.target)
}
