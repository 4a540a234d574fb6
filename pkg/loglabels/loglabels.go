// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package loglabels names the labels of pods by which logs are found after the pods are
// gone. Admission passes these labels on, the log service keeps them with the output, and
// readers ask for them.
package loglabels

// The labels.
const (
	TaskRun      = "tekton.dev/taskRun"
	PipelineRun  = "tekton.dev/pipelineRun"
	PipelineTask = "tekton.dev/pipelineTask"
	Service      = "serving.knative.dev/service"
	Revision     = "serving.knative.dev/revision"
	Workflow     = "workflows.argoproj.io/workflow"
)

// All returns all labels. A pod has those of its owner.
func All() []string {
	return []string{TaskRun, PipelineRun, PipelineTask, Service, Revision, Workflow}
}
