// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package spans

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/entrypointer/entrypointer/internal/logs/otlp"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
	"github.com/entrypointer/entrypointer/pkg/traceids"
)

// A Run is what a TaskRun or a PipelineRun of Tekton says of itself, as far as spans are made
// of it.
type Run struct {
	Metadata struct {
		Name            string            `json:"name"`
		Namespace       string            `json:"namespace"`
		UID             string            `json:"uid"`
		Labels          map[string]string `json:"labels"`
		OwnerReferences []owner           `json:"ownerReferences"`
	} `json:"metadata"`
	Status struct {
		StartTime       time.Time   `json:"startTime"`
		CompletionTime  time.Time   `json:"completionTime"`
		Conditions      []condition `json:"conditions"`
		PodName         string      `json:"podName"`         // of a TaskRun
		Steps           []step      `json:"steps"`           // of a TaskRun
		ChildReferences []child     `json:"childReferences"` // of a PipelineRun
	} `json:"status"`
}

type owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

func (o owner) isPipelineRun() bool {
	return strings.HasPrefix(o.APIVersion, tektonGroup) && o.Kind == "PipelineRun"
}

type condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
	Reason string `json:"reason"`
}

type step struct {
	Container string `json:"container"`
}

type child struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// ParseRun reads the JSON of a TaskRun or a PipelineRun.
func ParseRun(document []byte) (*Run, error) {
	r := &Run{} // for a document that is null as well
	if err := json.Unmarshal(document, r); err != nil {
		return nil, fmt.Errorf("reading a run of Tekton: %w", err)
	}
	r.trim()
	return r, nil
}

// maxRunText bounds a text of a run, in bytes. What it has that isn't used, and longer texts
// aren't kept: a run may have megabytes of them, and many are remembered. No name and no label
// is as long.
const maxRunText = 512

// trim leaves out what isn't used.
func (r *Run) trim() {
	m, s := &r.Metadata, &r.Status
	labels := map[string]string{} // a new one: a map that was large stays large
	for _, key := range []string{loglabels.PipelineTask, taskLabel, pipelineLabel} {
		if value := m.Labels[key]; value != "" {
			labels[key] = bounded(value)
		}
	}
	m.Labels = labels
	m.OwnerReferences = first(m.OwnerReferences, owner.isPipelineRun)
	for i := range m.OwnerReferences {
		o := &m.OwnerReferences[i]
		o.APIVersion, o.Name, o.UID = bounded(o.APIVersion), bounded(o.Name), bounded(o.UID)
	}
	s.Conditions = first(s.Conditions, func(c condition) bool { return c.Type == "Succeeded" })
	for i := range s.Conditions {
		c := &s.Conditions[i]
		c.Status, c.Reason = bounded(c.Status), bounded(c.Reason)
	}
	s.Steps = first(s.Steps, func(step) bool { return true })
	for i := range s.Steps {
		s.Steps[i].Container = bounded(s.Steps[i].Container)
	}
	s.ChildReferences = first(s.ChildReferences, func(c child) bool { return c.Kind == "TaskRun" })
	for i := range s.ChildReferences {
		s.ChildReferences[i].Name = bounded(s.ChildReferences[i].Name)
	}
	m.Name, m.Namespace, m.UID, s.PodName = bounded(m.Name), bounded(m.Namespace), bounded(m.UID), bounded(s.PodName)
}

// first returns the first element that is one, in a list of its own.
func first[E any](list []E, is func(E) bool) []E {
	if at := slices.IndexFunc(list, is); at >= 0 {
		return []E{list[at]}
	}
	return nil
}

// bounded returns the beginning of a text, which keeps no more than this.
func bounded(text string) string { return strings.Clone(text[:min(len(text), maxRunText)]) }

// Completed reports whether the run is over.
func (r *Run) Completed() bool { return !r.Status.CompletionTime.IsZero() }

// PipelineRun returns the name and the UID of the PipelineRun that a TaskRun belongs to, ""
// if it is on its own. The API server checks neither, so whoever creates a TaskRun chooses them.
func (r *Run) PipelineRun() (name, uid string) {
	for _, owner := range r.Metadata.OwnerReferences {
		if owner.isPipelineRun() {
			return owner.Name, owner.UID
		}
	}
	return "", ""
}

// BeginsWith reports whether a container is the first step of a completed TaskRun. Of a
// TaskRun's containers, one has its span sent: that of this step.
func (r *Run) BeginsWith(pod, container string) bool {
	return r.Status.PodName == pod && len(r.Status.Steps) > 0 && r.Status.Steps[0].Container == container
}

// HasFirst reports whether a TaskRun is the first one of a completed PipelineRun.
func (r *Run) HasFirst(taskRun string) bool {
	for _, child := range r.Status.ChildReferences {
		if child.Kind == "TaskRun" {
			return child.Name == taskRun
		}
	}
	return false
}

// TaskRunSpan returns the span of a completed TaskRun, if it belongs to a trace whose ids are made
// of UIDs. If not, Tekton traces it by itself.
func (r *Run) TaskRunSpan(trace traceids.TraceID) (span *tracepb.Span, of *resourcepb.Resource, is bool) {
	pipelineRun, root := r.PipelineRun()
	own, ok := traceids.SpanOf(r.Metadata.UID)
	if of, is := traceids.Of(cmp.Or(root, r.Metadata.UID)); !ok || !is || of != trace {
		return nil, nil, false
	}
	name := cmp.Or(r.Metadata.Labels[loglabels.PipelineTask], r.Metadata.Labels[taskLabel], r.Metadata.Name)
	result, reason := r.result()
	span = r.span(trace, own, name, result, reason)
	span.Kind = tracepb.Span_SPAN_KIND_INTERNAL
	span.Attributes = append(span.Attributes,
		otlp.Text(string(semconv.CICDPipelineTaskNameKey), name),
		otlp.Text(string(semconv.CICDPipelineTaskRunIDKey), r.Metadata.Name),
		otlp.Text(string(semconv.CICDPipelineTaskRunResultKey), result))
	if root != "" {
		above := trace.Root()
		span.ParentSpanId = above[:]
	}
	return span, r.resource(name, pipelineRun), true
}

// PipelineRunSpan returns the span of a completed PipelineRun, if its trace is that of the
// object's UID.
func (r *Run) PipelineRunSpan(trace traceids.TraceID) (span *tracepb.Span, of *resourcepb.Resource, is bool) {
	if of, is := traceids.Of(r.Metadata.UID); !is || of != trace {
		return nil, nil, false
	}
	pipeline := r.Metadata.Labels[pipelineLabel]
	action := semconv.CICDPipelineActionNameRun.Value.AsString()
	name := action
	if pipeline != "" && pipeline != r.Metadata.Name { // a Pipeline within a PipelineRun has its name
		name = action + " " + pipeline
	}
	result, reason := r.result()
	span = r.span(trace, trace.Root(), name, result, reason)
	span.Kind = tracepb.Span_SPAN_KIND_SERVER
	span.Attributes = append(span.Attributes,
		otlp.Text(string(semconv.CICDPipelineActionNameKey), action),
		otlp.Text(string(semconv.CICDPipelineNameKey), cmp.Or(pipeline, r.Metadata.Name)),
		otlp.Text(string(semconv.CICDPipelineResultKey), result))
	return span, r.resource(cmp.Or(pipeline, r.Metadata.Name), r.Metadata.Name), true
}

// tektonGroup begins the API versions of Tekton's objects.
const tektonGroup = "tekton.dev/"

// The labels that Tekton gives to runs.
const taskLabel, pipelineLabel = "tekton.dev/task", "tekton.dev/pipeline"

// span returns what the spans of both have in common. Tekton's times are whole seconds,
// rounded down: the end is rounded up, so what has happened within the run lies within.
func (r *Run) span(trace traceids.TraceID, own traceids.SpanID, name, result, reason string) *tracepb.Span {
	ended := r.Status.CompletionTime.Add(time.Second)
	began := r.Status.StartTime
	if began.IsZero() || began.After(ended) {
		began = r.Status.CompletionTime
	}
	span := &tracepb.Span{
		TraceId: trace[:], SpanId: own[:], Name: otlp.String(name), Flags: uint32(traceids.Sampled),
		StartTimeUnixNano: nanoseconds(began), EndTimeUnixNano: nanoseconds(ended),
	}
	if result != resultSuccess && result != resultSkip {
		span.Status = failure(reason)
		span.Attributes = append(span.Attributes, otlp.Text(string(semconv.ErrorTypeKey), cmp.Or(reason, "_OTHER")))
	}
	return span
}

// resource describes a run.
func (r *Run) resource(service, pipelineRun string) *resourcepb.Resource {
	of := &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
		otlp.Text(string(semconv.ServiceNameKey), service),
		otlp.Text(string(semconv.K8SNamespaceNameKey), r.Metadata.Namespace),
	}}
	if pipelineRun != "" {
		of.Attributes = append(of.Attributes, otlp.Text(string(semconv.CICDPipelineRunIDKey), pipelineRun))
	}
	return of
}

// The reasons of Tekton for runs that were cancelled, for those that took too long, and for those
// whose steps failed: Tekton 1.15 has StepFailed and StepOOM where earlier versions have Failed.
var (
	cancelled = []string{"TaskRunCancelled", "Cancelled", "PipelineRunCancelled", "CancelledRunFinally", "StoppedRunFinally", "PipelineRunStopping"}
	timedOut  = []string{"TaskRunTimeout", "PipelineRunTimeout"}
	failed    = []string{"Failed", "StepFailed", "StepOOM"}
)

// result returns the result of a completed run, of those that OpenTelemetry knows, and
// Tekton's reason.
func (r *Run) result() (result, reason string) {
	result = resultError
	for _, c := range r.Status.Conditions {
		if c.Type != "Succeeded" {
			continue
		}
		reason = c.Reason
		switch {
		case c.Status == "True":
			result = resultSuccess
		case slices.Contains(cancelled, reason):
			result = resultCancellation
		case slices.Contains(timedOut, reason):
			result = resultTimeout
		case slices.Contains(failed, reason):
			result = resultFailure
		}
	}
	return result, reason
}
