// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	logtesting "knative.dev/pkg/logging/testing"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// misspelt is the review of a pod of a ReplicaSet with an unknown annotation.
func misspelt(t *testing.T) (*admissionv1.AdmissionRequest, *corev1.Pod) {
	t.Helper()
	request := review(t, "testdata/review.json")
	var p corev1.Pod
	require.NoError(t, json.Unmarshal(request.Object.Raw, &p))
	p.Annotations["entrypointer.dev/colour"] = "red"
	return asking(t, request, &p), &p
}

// asking is the request about a pod.
func asking(t *testing.T, request *admissionv1.AdmissionRequest, p *corev1.Pod) *admissionv1.AdmissionRequest {
	t.Helper()
	raw, err := json.Marshal(p)
	require.NoError(t, err)
	request.Object = runtime.RawExtension{Raw: raw}
	return request
}

// API servers check names after they have called webhooks.
func TestAnOwnerOfANameThatCanNotBeGetsNoEvent(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for field, change := range map[string]func(*metav1.OwnerReference){
		"name":       func(o *metav1.OwnerReference) { o.Name = long },
		"kind":       func(o *metav1.OwnerReference) { o.Kind = long },
		"apiVersion": func(o *metav1.OwnerReference) { o.APIVersion = long },
		"uid":        func(o *metav1.OwnerReference) { o.UID = types.UID(long) },
	} {
		w, recorder := newWrapper(t, nil, found)
		request, p := misspelt(t)
		change(&p.OwnerReferences[0])
		require.Len(t, w.admit(logtesting.TestContextWithLogger(t), asking(t, request, p)).Warnings, 1, field)
		require.Empty(t, recorder.Events, field)
	}
}

func TestASecondLookAtAPodIsNoSecondEvent(t *testing.T) {
	w, recorder := newWrapper(t, nil, found)
	ctx := logtesting.TestContextWithLogger(t)
	request, p := misspelt(t)
	namespace, _ := w.optedIn(ctx, request)
	decided, err := w.decide(ctx, namespace, p)
	require.NoError(t, err)
	require.Len(t, w.admit(ctx, request).Warnings, 1)
	require.Contains(t, <-recorder.Events, "Warning UnknownAnnotation ")

	again := w.admit(ctx, asking(t, request, decided.Pod))
	require.Len(t, again.Warnings, 1)
	require.Empty(t, recorder.Events)

	ofAnotherRelease := decided.Pod.DeepCopy()
	ofAnotherRelease.Annotations[pod.StatusAnnotation] += "; version: v0"
	require.Len(t, w.admit(ctx, asking(t, request, ofAnotherRelease)).Warnings, 1)
	require.Empty(t, recorder.Events, "whose release is being replaced")

	p.Annotations[pod.StatusAnnotation] = decided.Pod.Annotations[pod.StatusAnnotation]
	w.admit(ctx, asking(t, request, p))
	require.Contains(t, <-recorder.Events, "Warning UnknownAnnotation ", "a template with our annotation is no second look")
}

func TestALongWarningIsCutToTheLengthOfAnEvent(t *testing.T) {
	w, recorder := newWrapper(t, nil, found)
	result := pod.Result{Pod: &corev1.Pod{}, Warnings: []pod.Warning{{Reason: pod.ReasonLookupFailed, Message: strings.Repeat("ü", 1000)}}}
	request, p := misspelt(t)
	w.events.warn(request, p, result)
	const more = "; see kubectl entrypointer why -n tenant replicaset/app-7d4b9"
	require.Equal(t, "Warning LookupFailed "+strings.Repeat("ü", (1024-len(more))/2)+more, <-recorder.Events)
}

func TestAnEventNamesTheCommandThatSaysMore(t *testing.T) {
	warning := pod.Warning{Message: "it is so"}
	for owner, want := range map[[2]string]string{
		{"ReplicaSet", "web-1"}:  "it is so; see kubectl entrypointer why -n tenant replicaset/web-1",
		{"TaskRun", "build"}:     "it is so; see kubectl entrypointer why -n tenant taskrun/build",
		{"ReplicaSet", "a; b\n"}: "it is so",
		{"Node", "one"}:          "it is so",
	} {
		require.Equal(t, want, message(warning, "tenant", &metav1.OwnerReference{Kind: owner[0], Name: owner[1]}))
	}
}

// Each replica has a recorder of its own, and each pod of a ReplicaSet may reach another replica.
func TestReplicasWriteOneEventOfAWarningAndItsOwner(t *testing.T) {
	client := fake.NewClientset()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app-7d4b9", UID: "1", Controller: new(true),
	}}}}
	request := &admissionv1.AdmissionRequest{Namespace: "tenant"}
	result := pod.Result{Pod: &corev1.Pod{}, Warnings: []pod.Warning{
		{Reason: pod.ReasonUnknownAnnotation, Message: "annotation a is unknown"},
		{Reason: pod.ReasonUnknownAnnotation, Message: "annotation b is unknown"},
	}}
	written := 0
	for range 2 {
		replica := &events{running(t, &typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})}
		for range 3 {
			replica.warn(request, p, result)
			written += len(result.Warnings)
			require.Eventually(t, func() bool { return len(client.Actions()) == written }, 10*time.Second, time.Millisecond)
		}
	}
	list, err := client.CoreV1().Events("tenant").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var messages []string
	for _, e := range list.Items {
		require.Equal(t, "UnknownAnnotation", e.Reason)
		require.Equal(t, "app-7d4b9", e.InvolvedObject.Name)
		require.Equal(t, int32(3), e.Count, "of the replica that wrote last")
		messages = append(messages, e.Message)
	}
	const more = "; see kubectl entrypointer why -n tenant replicaset/app-7d4b9"
	require.ElementsMatch(t, []string{"annotation a is unknown" + more, "annotation b is unknown" + more}, messages)
}
