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
		OwnerReferences []struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
			UID        string `json:"uid"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Status struct {
		StartTime      time.Time `json:"startTime"`
		CompletionTime time.Time `json:"completionTime"`
		Conditions     []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
			Reason string `json:"reason"`
		} `json:"conditions"`
		PodName string `json:"podName"` // of a TaskRun
		Steps   []struct {
			Container string `json:"container"`
		} `json:"steps"`
		ChildReferences []struct { // of a PipelineRun
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"childReferences"`
	} `json:"status"`
}

// ParseRun reads the JSON of a TaskRun or a PipelineRun.
func ParseRun(document []byte) (*Run, error) {
	r := &Run{} // for a document that is null as well
	if err := json.Unmarshal(document, r); err != nil {
		return nil, fmt.Errorf("reading a run of Tekton: %w", err)
	}
	return r, nil
}

// Completed reports whether the run is over.
func (r *Run) Completed() bool { return !r.Status.CompletionTime.IsZero() }

// PipelineRun returns the name and the UID of the PipelineRun that a TaskRun belongs to, ""
// if it is on its own. The API server checks neither, so whoever creates a TaskRun chooses them.
func (r *Run) PipelineRun() (name, uid string) {
	for _, owner := range r.Metadata.OwnerReferences {
		if strings.HasPrefix(owner.APIVersion, tektonGroup) && owner.Kind == "PipelineRun" {
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

// The reasons of Tekton for runs that were cancelled, and for those that took too long.
var (
	cancelled = []string{"TaskRunCancelled", "Cancelled", "PipelineRunCancelled", "CancelledRunFinally", "StoppedRunFinally", "PipelineRunStopping"}
	timedOut  = []string{"TaskRunTimeout", "PipelineRunTimeout"}
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
		case reason == "Failed":
			result = resultFailure
		}
	}
	return result, reason
}
