// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

// argoKind are the pods of Workflows. The container wait collects the outputs of the others,
// and ends them by files and signals of its own
// (https://github.com/argoproj/argo-workflows/blob/v4.1.2/workflow/common/common.go,
// LabelKeyWorkflow and WaitContainerName).
var argoKind = Kind{
	Owner: Argo, Label: "workflows.argoproj.io/workflow", Controller: "Workflow", Own: []string{"wait"}, Optional: true,
}
