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
	for _, each := range []string{all, one} {
		for _, parts := range []int{1, 3, 4} {
			seen := map[run]int{}
			for part := range (share{parts: parts, each: each, ways: Ways}).shares() {
				count := map[Way]int{}
				for example := range examples {
					for _, way := range (share{parts, part, each, Ways}).of(example) {
						seen[run{example, way}]++
						count[way]++
					}
				}
				for _, way := range Ways {
					require.InDelta(t, count[Copied], count[way], 1, "each share has as many of all")
				}
			}
			require.Len(t, seen, len(Ways)*examples)
			for run, times := range seen {
				require.Equal(t, 1, times, run)
			}
		}
	}
}

func TestAPodIsAsItsNamespaceAsksFor(t *testing.T) {
	taskRun := func(stepArgs ...string) *corev1.Pod {
		p := &corev1.Pod{}
		p.Name = "some-pod"
		p.Annotations = map[string]string{pod.StatusAnnotation: "Injected by init-container"}
		p.Spec.Volumes = []corev1.Volume{{Name: pod.VolumeName}}
		p.Spec.InitContainers = []corev1.Container{{Name: pod.InitContainerName}}
		p.Spec.Containers = []corev1.Container{
			{Name: "step-a", Command: []string{pod.EntrypointPath}, Args: stepArgs},
			{Name: "sidecar-b", Command: []string{"sleep"}},
		}
		return p
	}
	require.NoError(t, Copied.checkPod(taskRun("--", "make")))
	require.NoError(t, Tee.checkPod(taskRun(teeFlag, "--", "make")))
	require.ErrorContains(t, Mounted.checkPod(taskRun("--", "make")), `has the supervisor by "init-container"`)
	require.ErrorContains(t, Copied.checkPod(taskRun(teeFlag, "--", "make")), `"step-a"`)
	require.ErrorContains(t, Tee.checkPod(taskRun("--", "make")), `"step-a"`)
	require.Error(t, Tee.checkPod(&corev1.Pod{}), "what isn't wrapped")
	require.Equal(t, map[string]string{pod.InjectAnnotation: "true", pod.DeliveryAnnotation: "init-container", logsAnnotation: "tee"}, Tee.annotations())
	require.Equal(t, map[string]string{pod.InjectAnnotation: "true", pod.DeliveryAnnotation: "image-volume"}, Mounted.annotations())
}
