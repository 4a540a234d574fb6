// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// advise says what to do about a decision. A pod whose successor is wrapped has to be
// created anew, whatever else might help.
func (q *inquiry) advise(d *Decision) {
	now := q.answer.Now
	isWrappedAnew := d.Pod != "" && now != nil && now.Reason.isWrapped() && !d.Reason.isWrapped()
	switch {
	case isWrappedAnew || d.Reason == OlderThanOptIn:
		d.Do, d.Next = q.anew(d)
	case d.Reason == NamespaceNotOptedIn && !q.asks(d):
		d.Do, d.Next = q.askToo(d)
	default:
		d.Do, d.Next = doFor(d.Reason, d.of), q.nextFor(d)
		if q.target.Name == "job" && isOfTemplate(d.Reason) {
			d.Do += "; a Job keeps its template, so replace it (kubectl replace --force -f FILE)"
		}
	}
}

// isOfTemplate reports whether a change of the pod template helps.
func isOfTemplate(r Reason) bool { return strings.Contains(meaningOf(r).do, podTemplate) }

// doFor says what to do for a reason about a pod, or one that is like it.
func doFor(r Reason, p *corev1.Pod) string {
	do := meaningOf(r).do
	if controllerOf(p) != "" || !isOfTemplate(r) {
		return do
	}
	do = strings.Replace(do, podTemplate, "the pod", 1)
	if !p.CreationTimestamp.IsZero() {
		do += ", and create it anew"
	}
	return do
}

// controllerOf returns the kind of the object that controls a pod, "" for a bare pod.
func controllerOf(p *corev1.Pod) string {
	if owner := metav1.GetControllerOf(p); owner != nil {
		return owner.Kind
	}
	return ""
}

// runs are the kinds that run once, and whose controllers replace no pod.
var runs = []string{"TaskRun", "Workflow"}

// anew says how a pod is created anew.
func (q *inquiry) anew(d *Decision) (do, next string) {
	switch by := controllerOf(d.of); {
	case d.Ended:
		return "nothing: it has ended, and a new pod is wrapped", ""
	case by == "":
		return "create it anew: no controller does", ""
	case slices.Contains(runs, by):
		return "start a new run, which is wrapped: the pods of this one can't be created anew", ""
	case len(q.answer.Pods) > 0 && q.answer.Pods[0].Reason.isWrapped(): // the newest comes first
		return "wait: a newer pod, which is wrapped, is about to replace it", ""
	}
	return meaningOf(OlderThanOptIn).do, q.restart(d)
}

// asks reports whether the pods of the object are wrapped once their namespace opts in by
// "true". The namespace hasn't.
func (q *inquiry) asks(d *Decision) bool {
	p := d.of
	if q.answer.Now != nil {
		p = q.answer.Now.of // its template may have changed
	}
	outcome, _, err := q.explainer().Explain(q.Namespace, p)
	return err != nil || outcome != pod.NotOurs
}

// askToo says what to do in a namespace that doesn't opt in about pods that don't ask.
func (q *inquiry) askToo(d *Decision) (do, next string) {
	what := podTemplate
	if controllerOf(d.of) == "" {
		what = "the pod"
	}
	do = "annotate the namespace with `all`, or with `true`, and " + what + " as well"
	if patch := q.patch(); patch != "" {
		return do, q.annotateNamespace(pod.OwnedPods) + " && " + patch
	}
	return do, q.annotateNamespace(pod.AllPods)
}

func (q *inquiry) annotateNamespace(scope pod.Scope) string {
	return fmt.Sprintf("kubectl annotate --overwrite namespace %s %s=%s", q.Namespace, pod.InjectAnnotation, scope)
}

// nextFor returns the command to type next.
func (q *inquiry) nextFor(d *Decision) string {
	switch d.Reason {
	case NamespaceNotOptedIn:
		return q.annotateNamespace(pod.OwnedPods)
	case LabelMissing:
		return "kubectl -n default get events --field-selector involvedObject.name=" + q.Namespace
	case InjectorDown:
		return "kubectl -n entrypointer-system get pods"
	case DoesNotAsk, Reason(pod.NotOurs):
		if patch := q.patch(); patch != "" {
			return patch
		}
	}
	if len(d.Differs) > 0 {
		return q.restart(d)
	}
	return ""
}

// patch returns the command by which the object's pods ask, "" for an object whose template
// can't be changed, or doesn't change its pods.
func (q *inquiry) patch() string {
	spec := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:"true"}}}}}`, pod.InjectAnnotation)
	switch {
	case q.target.Object == "CronJob":
		spec = `{"spec":{"jobTemplate":` + spec + `}}`
	case !q.target.Restarts:
		return ""
	}
	return fmt.Sprintf(`kubectl -n %s patch %s -p '%s'`, q.Namespace, q.target, spec)
}

// warnOfMetadata warns of annotations on an object that has a template for pods.
func (a *Answer) warnOfMetadata(annotations map[string]string) {
	if a.Now != nil && pod.Mentions(annotations) {
		a.Now.Warnings = append(a.Now.Warnings, fmt.Sprintf("%s itself has annotations of entrypointer, which have no effect there: they belong into the metadata of its pod template", a.Target))
	}
}

// restart returns the command that has the pod of a decision created anew.
func (q *inquiry) restart(d *Decision) string {
	switch spec := q.workload.Spec; {
	case !q.target.Restarts:
		return ""
	case spec.Paused:
		return fmt.Sprintf("kubectl -n %s rollout resume %s", q.Namespace, q.target)
	case spec.UpdateStrategy.Type == "OnDelete" && d.Pod == "":
		return ""
	case spec.UpdateStrategy.Type == "OnDelete":
		return fmt.Sprintf("kubectl -n %s delete pod %s", q.Namespace, d.Pod)
	}
	return fmt.Sprintf("kubectl -n %s rollout restart %s", q.Namespace, q.target)
}
