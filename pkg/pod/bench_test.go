// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// BenchmarkMutation is what one admission costs: all of it, and stage by
// stage. The pod is a TaskRun's with five steps, as Tekton makes it.
func BenchmarkMutation(b *testing.B) {
	var spec pipelinev1.TaskSpec
	for step := range 5 {
		spec.Steps = append(spec.Steps, pipelinev1.Step{
			Name: "step" + strconv.Itoa(step), Image: "busybox", Script: "#!/bin/sh\necho hello",
		})
	}
	document, err := json.Marshal(tektonPod(b, spec))
	require.NoError(b, err)
	injector := newInjector(nil)

	decode := func() *corev1.Pod {
		var before corev1.Pod
		require.NoError(b, json.Unmarshal(document, &before))
		return &before
	}
	inject := func(before *corev1.Pod) *corev1.Pod {
		result, err := injector.Inject(b.Context(), "tenant", before)
		require.NoError(b, err)
		return result.Pod
	}
	encode := func(before, after *corev1.Pod) {
		_, err := json.Marshal(pod.Patch(before, after))
		require.NoError(b, err)
	}
	before := decode()
	after := inject(before)
	for name, stage := range map[string]func(){
		"all":    func() { before := decode(); encode(before, inject(before)) },
		"decode": func() { decode() },
		"inject": func() { inject(before) },
		"patch":  func() { encode(before, after) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				stage()
			}
		})
	}
}
