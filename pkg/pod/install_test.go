// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

const entrypointImage = "registry.example.test/entrypoint@sha256:4444444444444444444444444444444444444444444444444444444444444444"

func mounting() *pod.Injector {
	injector := newInjector(nil)
	injector.EntrypointImage = entrypointImage
	injector.Policy.Delivery = pod.DeliveryImageVolume
	return injector
}

func TestADeliveryIsForNamespacesAndForTheOperator(t *testing.T) {
	p := annotated(asking(running("a", "x")), "entrypointer.dev/delivery", "image-volume")
	result := inject(t, newInjector(nil), p)
	require.Equal(t, pod.DeliveryInitContainer, result.Delivery)
	require.Equal(t, []pod.Warning{{Reason: pod.ReasonAnnotationHasNoEffect, Message: "annotation entrypointer.dev/delivery has no effect on a pod: it is for namespaces"}}, result.Warnings)
	require.Equal(t, pod.DeliveryImageVolume, inject(t, mounting(), p).Delivery)

	_, err := pod.NamespaceDelivery(map[string]string{"entrypointer.dev/delivery": ""})
	require.ErrorContains(t, err, `annotation entrypointer.dev/delivery: "" is none of`)
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

func TestAnImageVolumeHoldsOnlyTheSupervisor(t *testing.T) {
	wrapped := func() *corev1.Pod { return inject(t, mounting(), asking(running("a", "x"))).Pod }
	for name, forge := range map[string]func(*corev1.Pod){
		"another image": func(p *corev1.Pod) { p.Spec.Volumes[0].Image.Reference = "registry.example.test/evil" },
		"another path":  func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[0].SubPath = "evil" },
		"a path that a variable names": func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts[0].SubPath, p.Spec.Containers[0].VolumeMounts[0].SubPathExpr = "", "$(EVIL)"
		},
		"an emptyDir": func(p *corev1.Pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := wrapped()
			forge(p)
			require.Equal(t, wrapped(), inject(t, mounting(), p).Pod)
		})
	}

	theirs := wrapped()
	theirs.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/evil"}}
	_, err := mounting().Inject(t.Context(), "tenant", theirs)
	requireRefused(t, err, pod.NameCollision, `"entrypointer-bin"`, "rename it")
}

func TestAMirrorsNameForTheMountedImageStays(t *testing.T) {
	p := inject(t, mounting(), asking(running("a", "x"))).Pod
	p.Spec.Volumes[0].Image.Reference = "mirror.example.test/entrypoint" + entrypointImage[len("registry.example.test/entrypoint"):]
	result := inject(t, mounting(), p)
	require.Equal(t, pod.AlreadyInjected, result.Outcome)
	require.Equal(t, p, result.Pod)
}

// Another release of ours, or this one under another configuration, may have
// wrapped the pod a moment before: replicas of both answer during an upgrade.
func TestAPodThatTheOtherDeliveryWrappedBecomesOurs(t *testing.T) {
	sent := func() *corev1.Pod {
		p := asking(running("a", "x"), running("istio-proxy", "i"))
		p.Spec.Volumes = []corev1.Volume{{Name: "theirs"}}
		p.Spec.InitContainers = []corev1.Container{running("theirs", "i")}
		return p
	}
	for name, test := range map[string]struct{ first, then *pod.Injector }{
		"an init container, then an image volume": {newInjector(nil), mounting()},
		"an image volume, then an init container": {mounting(), newInjector(nil)},
		"a claim, then an init container":         {claiming(), newInjector(nil)},
		"a claim, then an image volume":           {claiming(), mounting()},
		"an init container, then a claim":         {newInjector(nil), claiming()},
	} {
		t.Run(name, func(t *testing.T) {
			before := inject(t, test.first, sent()).Pod
			// Somebody else's containers may execute it as well.
			readOnly := before.Spec.Containers[0].VolumeMounts[0]
			before.Spec.Containers[1].VolumeMounts = []corev1.VolumeMount{readOnly}
			theirs := &before.Spec.InitContainers[len(before.Spec.InitContainers)-1]
			theirs.VolumeMounts = []corev1.VolumeMount{readOnly}

			result := inject(t, test.then, before)
			want := inject(t, test.then, sent()).Pod
			ours := want.Spec.Containers[0].VolumeMounts
			want.Spec.Containers[1].VolumeMounts = ours
			want.Spec.InitContainers[len(want.Spec.InitContainers)-1].VolumeMounts = ours
			requireSamePod(t, &corev1.Pod{Spec: want.Spec}, &corev1.Pod{Spec: result.Pod.Spec}, "it is to be as this delivery makes it")
			require.Equal(t, pod.Injected, result.Outcome)
			requireSamePod(t, result.Pod, patched(t, before, result.Pod), "the patch leads elsewhere")
			require.Equal(t, pod.AlreadyInjected, inject(t, test.then, result.Pod).Outcome)
		})
	}
}

// patched is what an API server makes of a pod and the patch to another.
func patched(t *testing.T, before, after *corev1.Pod) *corev1.Pod {
	t.Helper()
	operations, err := jsonpatch.DecodePatch(encode(t, pod.Patch(before, after)))
	require.NoError(t, err)
	document, err := operations.Apply(encode(t, before))
	require.NoError(t, err)
	return decode[corev1.Pod](t, document)
}
