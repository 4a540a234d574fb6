// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func wrappedPod() *corev1.Pod {
	p := &corev1.Pod{}
	p.Annotations = map[string]string{pod.StatusAnnotation: "Injected by init-container"}
	p.Spec.Volumes = []corev1.Volume{{Name: pod.VolumeName}}
	p.Spec.InitContainers = []corev1.Container{{Name: pod.InitContainerName}, {Name: "prepare"}}
	p.Spec.Containers = []corev1.Container{{Name: "step-build", Command: []string{pod.EntrypointPath}}, {Name: "sidecar-db"}}
	return p
}

func TestStepsAreWrappedAndNothingElseIs(t *testing.T) {
	require.NoError(t, CheckStepsWrapped(wrappedPod()))
	delivered := wrappedPod()
	delivered.Annotations[pod.StatusAnnotation] = "Injected by image-volume"
	delivered.Spec.InitContainers = nil
	delivered.Spec.Volumes = []corev1.Volume{{Name: pod.VolumeName, VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{}}}}
	require.NoError(t, CheckStepsWrapped(delivered))
	for what, spoil := range map[string]func(*corev1.Pod){
		"no init container":   func(p *corev1.Pod) { p.Spec.InitContainers = nil },
		"not the first":       func(p *corev1.Pod) { p.Spec.InitContainers = p.Spec.InitContainers[1:] },
		"no annotation":       func(p *corev1.Pod) { p.Annotations = nil },
		"a step without":      func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"/tekton/bin/entrypoint"} },
		"a sidecar that must": func(p *corev1.Pod) { p.Spec.Containers[1].Command = []string{pod.EntrypointPath} },
	} {
		p := wrappedPod()
		spoil(p)
		require.Error(t, CheckStepsWrapped(p), what)
	}
}

func TestAnythingOfOursShows(t *testing.T) {
	require.NoError(t, CheckNotWrapped(&corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "prepare"}},
		Containers:     []corev1.Container{{Name: "step-build", Command: []string{"/tekton/bin/entrypoint"}}},
	}}))
	for what, leave := range map[string]corev1.Pod{
		"init container": {Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: pod.InitContainerName}}}},
		"volume":         {Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: pod.VolumeName}}}},
		"command":        {Spec: corev1.PodSpec{Containers: []corev1.Container{{Command: []string{pod.EntrypointPath}}}}},
	} {
		require.Error(t, CheckNotWrapped(&leave), what)
	}
	p := &corev1.Pod{}
	p.Annotations = map[string]string{pod.StatusAnnotation: "Injected by init-container"}
	require.Error(t, CheckNotWrapped(p), "annotation")
	p.Annotations[pod.StatusAnnotation] = string(pod.OptedOut)
	require.NoError(t, CheckNotWrapped(p))
}
