// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"cmp"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/entrypointer/entrypointer/internal/logs/otlp"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
	"github.com/entrypointer/entrypointer/pkg/traceids"
)

// attributesOf are the attributes that labels stand for.
var attributesOf = []struct {
	label     string
	attribute attribute.Key
}{
	{loglabels.PipelineRun, semconv.CICDPipelineRunIDKey},
	{loglabels.Workflow, semconv.CICDPipelineRunIDKey},
	{loglabels.PipelineTask, semconv.CICDPipelineTaskNameKey},
	{loglabels.TaskRun, semconv.CICDPipelineTaskRunIDKey},
	{loglabels.Deployment, semconv.K8SDeploymentNameKey},
	{loglabels.ReplicaSet, semconv.K8SReplicaSetNameKey},
	{loglabels.StatefulSet, semconv.K8SStatefulSetNameKey},
	{loglabels.DaemonSet, semconv.K8SDaemonSetNameKey},
	{loglabels.Job, semconv.K8SJobNameKey},
	{loglabels.CronJob, semconv.K8SCronJobNameKey},
}

// resource describes the container of a stream, by OpenTelemetry's semantic conventions.
// How often it was restarted is negative if that isn't known.
func resource(source streams.Source, restarts int) *resourcepb.Resource {
	r := &resourcepb.Resource{}
	add := func(key attribute.Key, value string) {
		if value != "" {
			r.Attributes = append(r.Attributes, otlp.Text(string(key), value))
		}
	}
	add(semconv.ServiceNameKey, serviceName(source))
	add(semconv.K8SNamespaceNameKey, source.Namespace)
	add(semconv.K8SPodNameKey, source.Pod)
	add(semconv.K8SPodUIDKey, source.PodUID)
	add(semconv.K8SContainerNameKey, source.Container)
	for _, a := range attributesOf {
		add(a.attribute, source.Labels[a.label])
	}
	for _, label := range []string{loglabels.Service, loglabels.Revision} {
		add(attribute.Key("k8s.pod.label."+label), source.Labels[label])
	}
	if restarts >= 0 {
		r.Attributes = append(r.Attributes, otlp.Number(string(semconv.K8SContainerRestartCountKey), int64(restarts)))
	}
	return r
}

// serviceName returns what is the same for all pods of a workload, as OpenTelemetry's
// conventions for Kubernetes recommend. Destinations index it, so it is no name of a run.
func serviceName(source streams.Source) string {
	of := source.Labels
	return cmp.Or(of[loglabels.Service], of[loglabels.Deployment], of[loglabels.StatefulSet], of[loglabels.DaemonSet],
		of[loglabels.CronJob], of[loglabels.PipelineTask], source.Container, source.Namespace)
}

// A traceContext is the span to which the output of a pod belongs, if there is one.
type traceContext struct {
	trace, span []byte
	flags       uint32
}

// traceOf returns the trace context of a stream's pod: the label has the header traceparent
// of W3C Trace Context.
func traceOf(source streams.Source) (t traceContext) {
	of, is := traceids.Parse(source.Labels[loglabels.TraceParent])
	if !is {
		return t
	}
	return traceContext{of.Trace[:], of.Span[:], uint32(of.Flags)}
}
