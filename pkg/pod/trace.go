// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
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

func traceFlags(value string, c optionContext) ([]string, error) {
	on, err := parseBool(value)
	if err != nil || !on || c.trace == nil {
		return nil, err
	}
	return c.trace(), nil
}

// traceFlags returns the flags of the containers whose commands get a trace: all containers
// of a pod have the same one.
func (w *wrapping) traceFlags() []string {
	if w.trace == nil {
		w.trace = w.findTrace()
	}
	return w.trace
}

// findTrace looks for the trace to which the pod's work belongs, or with whose object it
// begins.
func (w *wrapping) findTrace() []string {
	for _, annotation := range []string{taskRunContext, pipelineRunContext} {
		parent, state, found := spanContext(w.pod.Pod, annotation)
		switch {
		case found && state != "":
			return []string{traceFlag + parent.String(), traceStateFlag + text.Escape(state)}
		case found:
			return []string{traceFlag + parent.String()}
		case w.pod.Annotations[annotation] != "":
			w.warn(warning(ReasonAnnotationHasNoEffect, "annotation %s has no effect on the trace: it has no traceparent of W3C Trace Context, as in %s", annotation,
				`{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`))
		}
	}
	return []string{w.ownTrace()}
}

// ownTrace returns the flag of a trace that begins with the run of the pod, or with the pod.
func (w *wrapping) ownTrace() string {
	controller := metav1.GetControllerOf(w.pod.Pod)
	if controller == nil {
		controller = &metav1.OwnerReference{}
	}
	group, _, _ := strings.Cut(controller.APIVersion, "/")
	kind := group + "/" + controller.Kind
	task := w.pod.Labels[taskRunUID]
	if task == "" && kind == "tekton.dev/TaskRun" {
		task = string(controller.UID)
	}
	if span, ok := traceids.SpanOf(task); ok {
		for _, root := range []string{w.pod.Labels[pipelineRunUID], task} {
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

// tracesPod reports whether the trace of a container begins with its pod.
func (c *container) tracesPod() bool { return slices.Contains(c.flags, traceOfPod) }

// podUID returns the variable from which the supervisor takes the pod's UID.
func podUID() corev1.EnvVar {
	return corev1.EnvVar{Name: podUIDVariable, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.uid"}}}
}

// isPodUID reports whether a variable is that one.
func isPodUID(v corev1.EnvVar) bool {
	return v.Name == podUIDVariable && v.ValueFrom != nil && v.ValueFrom.FieldRef != nil && v.ValueFrom.FieldRef.FieldPath == "metadata.uid"
}

// hasOurPodUID reports whether an earlier call has given a container the variable, by the flags
// that it has left: the author may have set the same variable.
func (c *container) hasOurPodUID() bool {
	flags := c.Args[:max(0, slices.Index(c.Args, "--"))]
	return isPrepared(c.Container) && slices.Contains(flags, traceOfPod)
}

// checkVariables refuses a container whose own variable would have the place of ours: the
// command doesn't get ours. Another webhook may have put other args in the place of the
// supervisor's since an earlier call, so the variable of a prepared container can be ours.
func (c *container) checkVariables() error {
	if !c.tracesPod() {
		return nil
	}
	for _, v := range c.Env {
		if v.Name == podUIDVariable && (!isPodUID(v) || !isPrepared(c.Container)) {
			return refuse(NameCollision, "adding variable %s to container %q: the container has a variable of this name; rename it, or set trace.%s/%s to false", podUIDVariable, c.Name, annotation.Domain, c.Name)
		}
	}
	return nil
}

// putPodUID gives a container the variable if its trace begins with the pod, and takes it
// away where an earlier call has given it.
func (c *container) putPodUID(to *corev1.Container) {
	has := slices.ContainsFunc(to.Env, isPodUID)
	switch {
	case c.tracesPod() && !has:
		to.Env = append(to.Env, podUID())
	case !c.tracesPod() && has && c.hasOurPodUID():
		to.Env = slices.DeleteFunc(to.Env, isPodUID)
	}
}
