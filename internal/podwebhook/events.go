// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// maxEventMessage bounds the message of an event, in bytes, like events.k8s.io
// (NoteLengthLimit in
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/validation/events.go).
const maxEventMessage = 1024

// events reports the warnings of an admitted pod to its controller, such as a ReplicaSet
// or a TaskRun, because controllers don't read an API server's warnings. Refusals need no
// events, because the controllers report them themselves: by the event FailedCreate
// (https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/controller/controller_utils.go),
// and by the message of a failed TaskRun
// (https://github.com/tektoncd/pipeline/blob/v1.15.0/pkg/reconciler/taskrun/taskrun.go).
type events struct{ recorder eventRecorder }

// An eventRecorder has an event written, and doesn't wait for that.
type eventRecorder interface {
	Event(about runtime.Object, eventType, reason, message string)
}

func (e *events) warn(request *admissionv1.AdmissionRequest, before *corev1.Pod, result pod.Result) {
	owner := metav1.GetControllerOf(before)
	if owner == nil || !isPlausible(*owner) || isDryRun(request) || isSecondLook(before, result) {
		return
	}
	for _, warning := range result.Warnings {
		e.recorder.Event(&corev1.ObjectReference{
			APIVersion: strings.Clone(owner.APIVersion),
			Kind:       strings.Clone(owner.Kind),
			Namespace:  request.Namespace,
			Name:       strings.Clone(owner.Name),
			UID:        types.UID(strings.Clone(string(owner.UID))),
		}, corev1.EventTypeWarning, string(warning.Reason), message(warning, request.Namespace, owner))
	}
}

// explained are the kinds of owners that kubectl entrypointer why takes, by its names for
// them.
var explained = map[string]string{
	"ReplicaSet": "replicaset", "StatefulSet": "statefulset", "DaemonSet": "daemonset", "Job": "job", "TaskRun": "taskrun",
}

// message is the message of an event. It ends with the command that says more.
func message(warning pod.Warning, namespace string, owner *metav1.OwnerReference) string {
	more := ""
	if kind := explained[owner.Kind]; kind != "" && len(validation.IsDNS1123Subdomain(owner.Name)) == 0 {
		more = fmt.Sprintf("; see kubectl entrypointer why -n %s %s/%s", namespace, kind, owner.Name)
	}
	return beginning(warning.Message, maxEventMessage-len(more)) + more
}

// isPlausible reports whether an owner can exist by the lengths of its names. API servers
// check them after they have called webhooks, and client-go's recorder remembers owners.
func isPlausible(owner metav1.OwnerReference) bool {
	return len(owner.Name) <= validation.DNS1123SubdomainMaxLength && len(owner.UID) <= 128 &&
		len(owner.Kind) <= validation.DNS1123LabelMaxLength && len(owner.APIVersion) <= validation.DNS1123SubdomainMaxLength+1+validation.DNS1123LabelMaxLength
}

// isSecondLook reports whether the API server calls the webhook again for a pod
// (reinvocationPolicy: IfNeeded): the pod already has the status annotation, and no
// container is newly wrapped. A template can have the annotation as well, but then its
// containers are newly wrapped.
func isSecondLook(before *corev1.Pod, result pod.Result) bool {
	status, said := before.Annotations[pod.StatusAnnotation]
	return said && len(result.Wrapped) == 0 && pod.WithoutVersion(status) == pod.WithoutVersion(result.Pod.Annotations[pod.StatusAnnotation])
}
