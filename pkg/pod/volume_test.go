// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

const entrypointImage = "registry.example.test/entrypoint@sha256:4444444444444444444444444444444444444444444444444444444444444444"

func mounting() *pod.Injector {
	injector := newInjector(nil)
	injector.EntrypointImage = entrypointImage
	injector.Policy.ImageVolume = true
	return injector
}

func TestAnImageVolumeNeedsNoInitContainer(t *testing.T) {
	result := inject(t, mounting(), asking(running("a", "x")))
	require.Equal(t, pod.Injected, result.Outcome)
	require.Empty(t, result.Pod.Spec.InitContainers)
	require.Equal(t, []corev1.Volume{{Name: "entrypointer-bin", VolumeSource: corev1.VolumeSource{
		Image: &corev1.ImageVolumeSource{Reference: entrypointImage, PullPolicy: corev1.PullIfNotPresent},
	}}}, result.Pod.Spec.Volumes)
	a := result.Pod.Spec.Containers[0]
	require.Equal(t, []corev1.VolumeMount{{Name: "entrypointer-bin", MountPath: "/entrypointer/bin", SubPath: "ko-app", ReadOnly: true}}, a.VolumeMounts)
	require.Equal(t, []string{pod.EntrypointPath}, a.Command)
	require.NotContains(t, result.Pod.Annotations, "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes", "an image is no local storage")

	again := inject(t, mounting(), result.Pod)
	require.Equal(t, pod.AlreadyInjected, again.Outcome)
	require.Equal(t, result.Pod, again.Pod)
}

func TestAnImageVolumeHoldsNobodyElsesProgram(t *testing.T) {
	wrapped := func() *corev1.Pod { return inject(t, mounting(), asking(running("a", "x"))).Pod }

	theirs := wrapped()
	theirs.Spec.Volumes[0].Image.Reference = "registry.example.test/evil"
	elsewhere := wrapped()
	elsewhere.Spec.Containers[0].VolumeMounts[0].SubPath = "evil"
	byInit := inject(t, newInjector(nil), asking(running("a", "x"))).Pod
	for _, p := range map[string]*corev1.Pod{"another image": theirs, "another path": elsewhere, "an emptyDir": byInit} {
		_, err := mounting().Inject(t.Context(), "tenant", p)
		requireRefused(t, err, pod.NameCollision, `"entrypointer-bin"`)
	}
}
