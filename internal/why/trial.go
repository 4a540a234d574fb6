// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// fromTemplate returns a pod as a controller makes it of a template.
func fromTemplate(template *corev1.PodTemplateSpec, controller, name, uid string) *corev1.Pod {
	p := &corev1.Pod{TypeMeta: podType, ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	p.Name, p.GenerateName = "", name+"-"
	p.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: apiVersions[controller], Kind: controller, Name: name, UID: types.UID(uid), Controller: new(true),
	}}
	return p
}

// completeTrial adds what controllers add to a pod, beyond the template.
func completeTrial(trial *corev1.Pod, o *objects.Workload) {
	for _, claim := range o.Spec.VolumeClaimTemplates { // of a StatefulSet
		source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-" + o.Name + "-0"}}
		trial.Spec.Volumes = append(trial.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: source})
	}
	if o.Kind == "DaemonSet" {
		// https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#taints-and-tolerations
		trial.Spec.Tolerations = append(trial.Spec.Tolerations, corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
}

// podType is the type of pods, which manifests name.
var podType = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}

// apiVersions are those of the kinds that control pods.
var apiVersions = map[string]string{
	"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1",
}

// trialLike returns a pod to create like another one: without what the API server and the
// scheduler have added, and without the status. What the injector has added stays: it
// decides anew on a pod that is wrapped.
func trialLike(p *corev1.Pod) *corev1.Pod {
	trial := p.DeepCopy()
	trial.ObjectMeta = metav1.ObjectMeta{
		GenerateName: p.Name + "-", Labels: trial.Labels, Annotations: trial.Annotations,
	}
	delete(trial.Annotations, pod.StatusAnnotation)
	for _, owner := range p.OwnerReferences {
		owner.BlockOwnerDeletion = nil
		trial.OwnerReferences = append(trial.OwnerReferences, owner)
	}
	trial.Status = corev1.PodStatus{}
	trial.Spec.NodeName = ""
	trial.Spec.EphemeralContainers = nil
	// The API server derives them from the priority class, which may have changed.
	trial.Spec.Priority, trial.Spec.PreemptionPolicy = nil, nil
	removeTokens(trial)
	return trial
}

// removeTokens removes the token of the API, which the API server adds to each pod.
func removeTokens(p *corev1.Pod) {
	token := func(name string) bool { return strings.HasPrefix(name, "kube-api-access-") }
	p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return token(v.Name) })
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for at := range containers {
			containers[at].VolumeMounts = slices.DeleteFunc(containers[at].VolumeMounts, func(m corev1.VolumeMount) bool { return token(m.Name) })
		}
	}
}

// try has the API server admit a pod without creating it. It returns the pod as it would
// be, nil if it would be refused or the user may not know.
func (q *inquiry) try(ctx context.Context, trial *corev1.Pod) (*corev1.Pod, *Decision, error) {
	trial.TypeMeta = podType
	if trial.Name != "" { // a pod of this name may exist
		trial.Name, trial.GenerateName = "", trial.Name+"-"
	}
	body, err := json.Marshal(trial)
	if err != nil {
		return nil, nil, fmt.Errorf("asking the API server about a new pod: %w", err)
	}
	result := q.REST.Post().AbsPath("/api/v1/namespaces", q.Namespace, "pods").Param("dryRun", "All").
		SetHeader("Content-Type", "application/json").Body(body).Do(ctx)
	var made corev1.Pod
	err = objects.Read(result, &made)
	if d := q.refusal(err); d != nil {
		return nil, d, nil
	}
	if objects.MayNotCreate(err, "pods") {
		q.unknown("what would happen to a pod that is created now: you may not create pods", "create pods")
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("asking the API server about a new pod in namespace %q: %w", q.Namespace, err)
	}
	made.CreationTimestamp = metav1.Time{} // its time is of no interest
	d := q.decisionOn(&made)
	if slices.ContainsFunc(trial.Spec.Containers, pod.IsWrapped) {
		// It is like one that is wrapped. The status is new, and says what was decided now.
		switch status := statusOf(&made); {
		case status == "":
			d = &Decision{Reason: q.whyNoStatus(&made)}
		case status != Reason(pod.Injected) && status != Reason(pod.PartlyInjected):
			d = &Decision{Reason: status}
		}
	}
	for at := range d.Containers {
		if c := &d.Containers[at]; c.Wrapped {
			c.CommandFrom = commandFrom(trial, c.Name)
		}
	}
	for _, warning := range result.Warnings() {
		d.Warnings = append(d.Warnings, warning.Text)
	}
	return &made, d, nil
}

// The sources of a command line.
const (
	fromPod   = "Pod"
	fromImage = "Image"
)

// commandFrom says from where the command line of a container comes that is wrapped now, ""
// if it was wrapped before.
func commandFrom(trial *corev1.Pod, container string) string {
	at := slices.IndexFunc(trial.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
	switch {
	case at < 0 || pod.IsWrapped(trial.Spec.Containers[at]): // another webhook may add containers
		return ""
	case len(trial.Spec.Containers[at].Command) == 0:
		return fromImage
	default:
		return fromPod
	}
}

// What our policies say: unwrapped is the beginning.
const (
	unwrapped = "the pod would run without its supervisor"
	undecided = "the injector doesn't respond, and hasn't decided on this pod"
)

// refusal returns the decision to refuse a pod, nil if the error isn't one.
func (q *inquiry) refusal(err error) *Decision {
	if err == nil || objects.MayNotCreate(err, "pods") {
		return nil
	}
	said := err.Error()
	switch message, is := objects.IsRefusedByUs(err); {
	case is:
		return &Decision{Reason: Refused, Message: message}
	case objects.CannotReachUs(err):
		return &Decision{Reason: InjectorDown, Message: said}
	case strings.Contains(said, undecided):
		return &Decision{Reason: InjectorDown, Message: said}
	case strings.Contains(said, unwrapped):
		_, rest, _ := strings.Cut(said, unwrapped)
		return &Decision{Reason: LabelMissing, Message: unwrapped + rest}
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsInternalError(err):
		return &Decision{Reason: RefusedByAnother, Message: said}
	}
	return nil
}

// differences says in what a pod that exists differs from one that is created now.
func differences(p *corev1.Pod, d *Decision, made *corev1.Pod, now *Decision) (list []string) {
	if now == nil || made == nil || d.Reason == OlderThanOptIn {
		return nil
	}
	if !d.Reason.isWrapped() || !now.Reason.isWrapped() {
		if d.Reason != now.Reason {
			list = append(list, "a pod that is created now "+meaningOf(now.Reason).is)
		}
		return list
	}
	for _, c := range p.Spec.Containers {
		at := slices.IndexFunc(made.Spec.Containers, func(other corev1.Container) bool { return other.Name == c.Name })
		if at < 0 {
			continue
		}
		is, would := pod.Flags(c), pod.Flags(made.Spec.Containers[at])
		for _, flag := range would {
			if !slices.Contains(is, flag) && !isMark(flag) {
				list = append(list, fmt.Sprintf("container %s would have the flag %s", c.Name, flag))
			}
		}
		for _, flag := range is {
			if !slices.Contains(would, flag) && !isMark(flag) {
				list = append(list, fmt.Sprintf("container %s would no longer have the flag %s", c.Name, flag))
			}
		}
	}
	return list
}

// isMark reports whether a flag has no effect: the injector notes by it of which image words are.
func isMark(flag string) bool { return strings.HasPrefix(flag, "-image-words=") }

// Decided returns the answer about the pod of a manifest that was decided on without a cluster, and the pod
// as it would be, nil if it would be refused. Other errors than refusals are returned.
func Decided(m Manifest, namespace string, result pod.Result, err error) (*corev1.Pod, *Answer, error) {
	answer := &Answer{Target: m.Name, Namespace: namespace}
	if refusal, is := errors.AsType[*pod.Refusal](err); is {
		answer.Now = &Decision{Reason: Refused, Message: refusal.Error(), Do: meaningOf(Refused).do}
		answer.warnOfMetadata(m.metadata)
		return nil, answer, nil
	}
	if err != nil {
		return nil, nil, err
	}
	reason := Reason(result.Outcome)
	switch result.Outcome {
	case pod.NotOptedIn:
		reason = NamespaceNotOptedIn
	case pod.AlreadyInjected:
		reason = Reason(pod.Injected)
	case pod.NotOurs:
		if statusOf(result.Pod) == "" { // an API server doesn't ask about such a pod
			reason = DoesNotAsk
		}
	}
	answer.Now = &Decision{Reason: reason, Delivery: result.Delivery, Warnings: pod.Messages(result.Warnings), Do: doFor(reason, m.Pod)}
	answer.warnOfMetadata(m.metadata)
	answer.Wrapped = answer.IsWrapped()
	return result.Pod, answer, nil
}
