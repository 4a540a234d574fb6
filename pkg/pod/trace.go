// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
	"github.com/entrypointer/entrypointer/pkg/traceids"
)

// The annotations in which Tekton passes the span of a run to its pods, where Tekton traces:
// the headers of W3C Trace Context as a JSON object. Whoever creates a run can write them
// (https://github.com/tektoncd/pipeline/blob/v1.15.0/pkg/reconciler/taskrun/tracing.go).
const (
	taskRunContext     = "tekton.dev/taskrunSpanContext"
	pipelineRunContext = "tekton.dev/pipelinerunSpanContext"
)

// The labels with the UIDs of the runs to which a pod belongs.
const (
	taskRunUID     = "tekton.dev/taskRunUID"
	pipelineRunUID = "tekton.dev/pipelineRunUID"
)

// maxSpanContext bounds such an annotation, in bytes. That of Tekton has some hundred.
const maxSpanContext = 4 << 10

// spanContext returns the span that an annotation passes on, and its state. A state that is
// malformed is "".
func spanContext(pod *corev1.Pod, annotation string) (parent traceids.Parent, state string, found bool) {
	value := pod.Annotations[annotation]
	if value == "" || len(value) > maxSpanContext {
		return parent, "", false
	}
	var headers map[string]string
	if err := json.Unmarshal([]byte(value), &headers); err != nil {
		return parent, "", false
	}
	if parent, found = traceids.Parse(headers["traceparent"]); found {
		state, _ = traceids.ParseState(headers["tracestate"])
	}
	return parent, state, found
}

// findTrace looks for the trace to which a pod's work belongs, or with whose object it begins,
// and returns it as flags, with warnings of annotations that have none.
func findTrace(pod *corev1.Pod) (flags []string, warnings []Warning) {
	for _, annotation := range []string{taskRunContext, pipelineRunContext} {
		parent, state, found := spanContext(pod, annotation)
		switch {
		case found && state != "":
			return []string{traceFlag + parent.String(), traceStateFlag + text.Escape(state)}, warnings
		case found:
			return []string{traceFlag + parent.String()}, warnings
		case pod.Annotations[annotation] != "":
			warnings = append(warnings, warning(ReasonAnnotationHasNoEffect, "annotation %s has no effect on the trace: it has no traceparent of W3C Trace Context, as in %s", annotation,
				`{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`))
		}
	}
	return []string{ownTrace(pod)}, warnings
}

// ownTrace returns the flag of a trace that begins with the run of the pod, or with the pod.
func ownTrace(pod *corev1.Pod) string {
	controller := metav1.GetControllerOf(pod)
	if controller == nil {
		controller = &metav1.OwnerReference{}
	}
	group, _, _ := strings.Cut(controller.APIVersion, "/")
	kind := group + "/" + controller.Kind
	task := pod.Labels[taskRunUID]
	if task == "" && kind == "tekton.dev/TaskRun" {
		task = string(controller.UID)
	}
	if span, ok := traceids.SpanOf(task); ok {
		for _, root := range []string{pod.Labels[pipelineRunUID], task} {
			if id, ok := traceids.Of(root); ok {
				return traceFlag + traceids.Parent{Trace: id, Span: span, Flags: traceids.Sampled}.String()
			}
		}
	}
	if slices.Contains(endingKinds, kind) {
		if _, ok := traceids.Of(string(controller.UID)); ok {
			return traceFlag + string(controller.UID)
		}
	}
	return traceOfPod
}

// endingKinds are the controllers whose pods are one piece of work, which ends. The pods of
// others, such as a ReplicaSet, would be in one trace for as long as the controller exists.
var endingKinds = []string{"batch/Job", "argoproj.io/Workflow"}

// traceOfPod is the flag of a trace that begins with the pod. Admission doesn't know the
// pod's UID: API servers assign it after their webhooks (Store.create in
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go).
const traceOfPod = traceFlag + "env:" + podUIDVariable

// podUID returns the variable from which the supervisor takes the pod's UID.
func podUID() corev1.EnvVar {
	return corev1.EnvVar{Name: podUIDVariable, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.uid"}}}
}

// isPodUID reports whether a variable is that one.
func isPodUID(v corev1.EnvVar) bool {
	return v.Name == podUIDVariable && v.ValueFrom != nil && v.ValueFrom.FieldRef != nil && v.ValueFrom.FieldRef.FieldPath == "metadata.uid"
}
