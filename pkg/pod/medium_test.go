// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// allowed is a container that may use so much of the node's disk and memory.
func allowed(name, disk, memory string) corev1.Container {
	c := running(name, "x")
	c.Resources.Limits = corev1.ResourceList{}
	if disk != "" {
		c.Resources.Limits[corev1.ResourceEphemeralStorage] = resource.MustParse(disk)
	}
	if memory != "" {
		c.Resources.Limits[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return c
}

// after is a pod whose init containers have run before.
func after(p *corev1.Pod, init ...corev1.Container) *corev1.Pod {
	p.Spec.InitContainers = init
	return p
}

func staying(c corev1.Container) corev1.Container {
	c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	return c
}

// media are where the volumes of the supervisor and of the tools are.
func media(p *corev1.Pod) (entrypoint, tools corev1.StorageMedium) {
	at := func(name string) corev1.StorageMedium {
		return p.Spec.Volumes[slices.IndexFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })].EmptyDir.Medium
	}
	return at(pod.VolumeName), at(pod.ToolsVolumeName)
}

// What is copied to disk counts against what the pod may use of the node's disk, what
// is copied to memory against what it may use of that.
func TestTheEntrypointTakesNothingOfALimitedDisk(t *testing.T) {
	const disk, memory = corev1.StorageMediumDefault, corev1.StorageMediumMemory
	for name, test := range map[string]struct {
		pod               *corev1.Pod
		entrypoint, tools corev1.StorageMedium
	}{
		"no limit":                          {asking(allowed("a", "", "")), disk, disk},
		"a limit of memory alone":           {asking(allowed("a", "", "1Gi")), disk, disk},
		"none at all to use":                {asking(allowed("a", "0", "")), memory, memory},
		"a mebibyte":                        {asking(allowed("a", "1Mi", "")), memory, memory},
		"several, which count as one":       {asking(allowed("a", "64Mi", ""), allowed("b", "64Mi", ""), allowed("c", "", "")), memory, memory},
		"one byte more than little":         {asking(allowed("a", "64Mi", ""), allowed("b", "67108865", "")), memory, disk},
		"plenty":                            {asking(allowed("a", "1Gi", ""), allowed("b", "", "")), memory, disk},
		"plenty in one of two":              {asking(allowed("a", "1Mi", ""), allowed("b", "1Gi", "")), memory, disk},
		"more than a number can count":      {asking(allowed("a", "8Ei", ""), allowed("b", "8Ei", "")), memory, disk},
		"an init container's":               {after(asking(allowed("a", "", "")), allowed("i", "1Gi", "")), memory, disk},
		"an init container's, and less":     {after(asking(allowed("a", "1Mi", "")), allowed("i", "1Gi", "")), memory, disk},
		"an init container's little":        {after(asking(allowed("a", "", "")), allowed("i", "128Mi", "")), memory, memory},
		"a sidecar's":                       {after(asking(allowed("a", "64Mi", "")), staying(allowed("i", "128Mi", ""))), memory, disk},
		"a sidecar's and an init container": {after(asking(allowed("a", "1Mi", "")), staying(allowed("i", "64Mi", "")), allowed("j", "65Mi", "")), memory, disk},
		"the same in the other order":       {after(asking(allowed("a", "1Mi", "")), allowed("j", "65Mi", ""), staying(allowed("i", "64Mi", ""))), memory, memory},
		"memory for the volume":             {asking(allowed("a", "1Gi", "32Mi")), memory, disk},
		"memory for less":                   {asking(allowed("a", "1Gi", "1Gi"), allowed("b", "", "31Mi")), disk, disk},
		"memory without a limit":            {asking(allowed("a", "1Gi", "0")), memory, disk},
		"little of both":                    {asking(allowed("a", "128Mi", "31Mi")), memory, memory},
		"memory for less in the pod": {func() *corev1.Pod {
			p := asking(allowed("a", "1Gi", ""))
			p.Spec.Resources = &corev1.ResourceRequirements{Limits: allowed("", "", "31Mi").Resources.Limits}
			return p
		}(), disk, disk},
	} {
		t.Run(name, func(t *testing.T) {
			injector, p := offering(pod.DeliveryInitContainer, ni), withTools(test.pod, "ni")
			wrapped := inject(t, injector, p).Pod
			entrypoint, tools := media(wrapped)
			require.Equal(t, test.entrypoint, entrypoint, "the supervisor")
			require.Equal(t, test.tools, tools, "tools")
			require.Equal(t, pod.AlreadyInjected, inject(t, injector, wrapped).Outcome)
			require.Nil(t, inject(t, offering(pod.DeliveryImageVolume, ni), p).Pod.Spec.Volumes[0].EmptyDir)
		})
	}
}

// Quantities beyond 8 EiB keep their value behind a pointer, which copies share.
func TestLimitsThatAreAddedUpStayAsTheyAre(t *testing.T) {
	huge := func() *corev1.Pod {
		return after(asking(allowed("a", "9Ei", "")), staying(allowed("i", "9Ei", "")), staying(allowed("j", "9Ei", "")))
	}
	wrapped := inject(t, newInjector(nil), huge()).Pod
	for i, c := range huge().Spec.InitContainers {
		require.True(t, c.Resources.Limits.StorageEphemeral().Equal(*wrapped.Spec.InitContainers[i+1].Resources.Limits.StorageEphemeral()), c.Name)
	}
	require.True(t, resource.MustParse("9Ei").Equal(*wrapped.Spec.InitContainers[0].Resources.Limits.StorageEphemeral()))
}

// Another release wrapped the pod, or the limit came after us.
func TestACopyThatWouldCountMovesToMemory(t *testing.T) {
	injector := offering(pod.DeliveryInitContainer, ni)
	p := inject(t, injector, withTools(asking(allowed("a", "1Mi", "")), "ni")).Pod
	for i := range p.Spec.Volumes {
		p.Spec.Volumes[i].EmptyDir.Medium = corev1.StorageMediumDefault
	}
	entrypoint, tools := media(inject(t, injector, p).Pod)
	require.Equal(t, corev1.StorageMediumMemory, entrypoint)
	require.Equal(t, corev1.StorageMediumMemory, tools)
}

func TestACopyThatAnotherWebhookWantsInMemoryStaysThere(t *testing.T) {
	p := inject(t, newInjector(nil), asking(running("a", "x"))).Pod
	p.Spec.Volumes[0].EmptyDir.Medium = corev1.StorageMediumMemory
	require.Equal(t, pod.AlreadyInjected, inject(t, newInjector(nil), p).Outcome)
}
