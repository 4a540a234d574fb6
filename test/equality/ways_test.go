// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package equality

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func TestACommitChoosesAShare(t *testing.T) {
	chosen := map[int]bool{}
	for _, end := range "0123456789abcdef" {
		commit := strings.Repeat("5", 39) + string(end)
		share := shareOf(commit, 4)
		require.Equal(t, share, shareOf(commit, 4))
		chosen[share] = true
	}
	require.Equal(t, map[int]bool{0: true, 1: true, 2: true, 3: true}, chosen)
	require.Zero(t, shareOf("", 4), "without a commit")
	require.Zero(t, shareOf(strings.Repeat("5", 40), 1))
}

func TestAllSharesTogetherAreEachExampleInEachWayOnce(t *testing.T) {
	const examples = 152
	type run struct {
		example int
		way     Way
	}
	for _, ways := range []string{both, one} {
		for _, parts := range []int{1, 3, 4} {
			seen := map[run]int{}
			for part := range shares(parts, ways) {
				count := map[Way]int{}
				for example := range examples {
					for _, way := range (share{parts, part, ways}).of(example) {
						seen[run{example, way}]++
						count[way]++
					}
				}
				require.InDelta(t, count[Wrapped], count[Tee], 1, "each share has as many of both")
			}
			require.Len(t, seen, 2*examples)
			for run, times := range seen {
				require.Equal(t, 1, times, run)
			}
		}
	}
}

func TestASharesStepsSendWhatTheNamespaceAsksFor(t *testing.T) {
	taskRun := func(stepArgs ...string) *corev1.Pod {
		p := &corev1.Pod{}
		p.Name = "some-pod"
		p.Annotations = map[string]string{pod.StatusAnnotation: string(pod.Injected)}
		p.Spec.InitContainers = []corev1.Container{{Name: pod.InitContainerName}}
		p.Spec.Containers = []corev1.Container{
			{Name: "step-a", Command: []string{pod.EntrypointPath}, Args: stepArgs},
			{Name: "sidecar-b", Command: []string{"sleep"}},
		}
		return p
	}
	require.NoError(t, Wrapped.right(taskRun("--", "make")))
	require.NoError(t, Tee.right(taskRun(teeFlag, "--", "make")))
	require.ErrorContains(t, Wrapped.right(taskRun(teeFlag, "--", "make")), `"step-a"`)
	require.ErrorContains(t, Tee.right(taskRun("--", "make")), `"step-a"`)
	require.Error(t, Tee.right(&corev1.Pod{}), "what isn't wrapped")
	require.Equal(t, map[string]string{pod.InjectAnnotation: "true", logsAnnotation: "tee"}, Tee.annotations())
	require.Equal(t, map[string]string{pod.InjectAnnotation: "true"}, Wrapped.annotations())
}
