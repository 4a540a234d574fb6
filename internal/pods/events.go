// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// maxEventMessage is the API server's limit for the message of an event, in bytes.
const maxEventMessage = 1024

// events tells the owner of a pod what became of it. A pod that is refused
// never exists, and its creator is a controller that nobody watches; the
// ReplicaSet, Job or TaskRun that it works for is there to be described.
type events struct{ recorder record.EventRecorder }

func (e *events) warn(request *admissionv1.AdmissionRequest, refused *corev1.Pod, outcome pod.Outcome, message string) {
	owner := metav1.GetControllerOf(refused)
	if owner == nil || request.DryRun != nil && *request.DryRun {
		return
	}
	if len(message) > maxEventMessage {
		message = strings.ToValidUTF8(message[:maxEventMessage], "")
	}
	e.recorder.Event(&corev1.ObjectReference{
		APIVersion: owner.APIVersion,
		Kind:       owner.Kind,
		Namespace:  request.Namespace,
		Name:       owner.Name,
		UID:        owner.UID,
	}, corev1.EventTypeWarning, string(outcome), message)
}
