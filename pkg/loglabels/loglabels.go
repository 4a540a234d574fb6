// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package loglabels names the labels by which logs are found after their pods are gone.
// Admission passes them on, the log service keeps them with the output, and readers ask for
// them.
package loglabels

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// The labels that pods have, each from its owner.
const (
	TaskRun      = "tekton.dev/taskRun"
	PipelineRun  = "tekton.dev/pipelineRun"
	PipelineTask = "tekton.dev/pipelineTask"
	Service      = "serving.knative.dev/service"
	Revision     = "serving.knative.dev/revision"
	Workflow     = "workflows.argoproj.io/workflow"
)

// The labels that admission makes of a pod's controller (pkg/pod/logowner.go). The pods of
// Kubernetes' own controllers have no label with the name of the object, or like those of a
// Job, not always.
const (
	Deployment  = "entrypointer.dev/deployment"
	ReplicaSet  = "entrypointer.dev/replicaset"
	StatefulSet = "entrypointer.dev/statefulset"
	DaemonSet   = "entrypointer.dev/daemonset"
	Job         = "entrypointer.dev/job"
	CronJob     = "entrypointer.dev/cronjob"
)

// TraceParent is the trace to which a pod's work belongs, in the form of the header
// traceparent of W3C Trace Context. Admission makes it of an annotation.
const TraceParent = "entrypointer.dev/traceparent"

// OfPods returns the labels that pods have. A pod has those of its owner.
func OfPods() []string {
	return []string{TaskRun, PipelineRun, PipelineTask, Service, Revision, Workflow}
}

// All returns all labels.
func All() []string {
	return append(OfPods(), Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, TraceParent)
}

// owners are the types of the objects to which pods belong, by their labels. The first that a
// pod has counts: a Service has a Revision and a Deployment, and a Deployment a ReplicaSet. Of
// runs that belong to another object, it is the run.
var owners = []struct{ label, typed string }{
	{TaskRun, "taskrun"},
	{Workflow, "workflow"},
	{Service, "ksvc"},
	{Revision, "revision"},
	{Deployment, "deployment"},
	{ReplicaSet, "replicaset"},
	{StatefulSet, "statefulset"},
	{DaemonSet, "daemonset"},
	{Job, "job"},
}

// OwnerOf returns the object to which logs with these labels belong, as TYPE/NAME of
// package target, "" without such a label.
func OwnerOf(labels map[string]string) string {
	for _, owner := range owners {
		if name := labels[owner.label]; name != "" {
			return owner.typed + "/" + name
		}
	}
	return ""
}

// Required returns a label that a selector requires and by which logs are found, "" if
// another one matters as well, or if no value is given.
func Required(selector labels.Selector) (key, value string) {
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		if !slices.Contains(All(), r.Key()) {
			return "", ""
		}
		isOne := slices.Contains([]selection.Operator{selection.Equals, selection.DoubleEquals, selection.In}, r.Operator())
		if values := r.ValuesUnsorted(); isOne && len(values) == 1 && values[0] != "" {
			key, value = r.Key(), values[0]
		}
	}
	return key, value
}
