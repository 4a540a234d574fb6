// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"
)

func TestThePodsOfAPipelineRunAreWrappedAndPassResultsOn(t *testing.T) {
	t.Parallel()
	box := image(t, "busybox:1.37")
	namespace := optedInNamespace(t)
	task := func(name string, results []pipelinev1.TaskResult, step pipelinev1.Step) pipelinev1.PipelineTask {
		step.Name, step.Image = name, box
		return pipelinev1.PipelineTask{Name: name, TaskSpec: &pipelinev1.EmbeddedTask{
			TaskSpec: pipelinev1.TaskSpec{Results: results, Steps: []pipelinev1.Step{step}},
		}}
	}
	_, err := cluster.Tekton.TektonV1().PipelineRuns(namespace).Create(t.Context(), &pipelinev1.PipelineRun{
		ObjectMeta: metav1.ObjectMeta{Name: "passes"},
		Spec: pipelinev1.PipelineRunSpec{PipelineSpec: &pipelinev1.PipelineSpec{
			Tasks: []pipelinev1.PipelineTask{
				task("writes", []pipelinev1.TaskResult{{Name: "text"}}, pipelinev1.Step{Script: "#!/bin/sh\nprintf 'it costs 5$' > $(results.text.path)\n"}),
				task("reads", nil, pipelinev1.Step{Command: []string{"echo"}, Args: []string{"$(tasks.writes.results.text)"}}),
			},
			Results: []pipelinev1.PipelineResult{{Name: "text", Value: *pipelinev1.NewStructuredValues("$(tasks.writes.results.text)")}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	run, err := cluster.WaitForPipelineRun(t.Context(), namespace, "passes")
	require.NoError(t, err)
	condition := run.Status.GetCondition(apis.ConditionSucceeded)
	require.Equal(t, corev1.ConditionTrue, condition.Status, condition.Message)
	require.Equal(t, "it costs 5$", run.Status.Results[0].Value.StringVal)

	pods, err := cluster.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, pods.Items, 2)
	for i := range pods.Items {
		requireWrapped(t, &pods.Items[i], stepContainers(&pods.Items[i])...)
	}
	reader, err := cluster.PodOf(t.Context(), namespace, "tekton.dev/pipelineTask=reads")
	require.NoError(t, err)
	require.Equal(t, "it costs 5$\n", logs(t, namespace, reader.Name, "step-reads"))
}
