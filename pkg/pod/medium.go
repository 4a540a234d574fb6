// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// volumeSize bounds the emptyDir of the supervisor: one binary, and a second while the
// first is replaced.
const volumeSize = "32Mi"

// littleDisk is the limit of ephemeral storage up to which all copies are in memory:
// copies on disk would make the kubelet evict the pod.
var littleDisk = resource.MustParse("128Mi")

// entrypointMedium returns the medium of the supervisor's emptyDir: disk, or memory if
// the kubelet limits the pod's use of the disk. An emptyDir on disk counts against that
// limit, and an emptyDir in memory doesn't (IsLocalEphemeralVolume in
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/volume/util/util.go).
//
// The kernel charges the memory, 2 MB or 7 with logs, to the init container that writes
// the copy, and to the pod after the init container has ended: never to a container of
// the author's. If the volume doesn't fit into a memory limit, the copy stays on disk,
// unless the limit of the disk is little, too.
func entrypointMedium(pod *corev1.Pod) corev1.StorageMedium {
	disk := storageLimit(pod)
	if disk == nil || disk.Cmp(littleDisk) > 0 && hasLittleMemory(pod) {
		return corev1.StorageMediumDefault
	}
	return corev1.StorageMediumMemory
}

// toolsMedium returns the medium of the tools' emptyDir: a tool may have [toolSize], and
// most pods have less memory than disk to spare for it.
func toolsMedium(pod *corev1.Pod) corev1.StorageMedium {
	if disk := storageLimit(pod); disk == nil || disk.Cmp(littleDisk) > 0 {
		return corev1.StorageMediumDefault
	}
	return corev1.StorageMediumMemory
}

// storageLimit returns the limit of the pod's use of the node's disk, nil for none: the
// limits of all containers together, or of the init containers before them if those are
// larger (podEphemeralStorageLimitEviction in
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/eviction/eviction_manager.go).
func storageLimit(pod *corev1.Pod) *resource.Quantity {
	limitOf := func(c corev1.Container) (resource.Quantity, bool) {
		limit, limited := c.Resources.Limits[corev1.ResourceEphemeralStorage]
		return limit.DeepCopy(), limited // DeepCopy, because large quantities share the memory to which limits are added
	}
	limited := false
	var together, most resource.Quantity
	for _, c := range pod.Spec.InitContainers {
		limit, has := limitOf(c)
		limited = limited || has
		limit.Add(together)
		if limit.Cmp(most) > 0 {
			most = limit.DeepCopy()
		}
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			together = limit
		}
	}
	for _, c := range pod.Spec.Containers {
		limit, has := limitOf(c)
		limited = limited || has
		together.Add(limit)
	}
	if !limited {
		return nil
	}
	if most.Cmp(together) > 0 {
		return &most
	}
	return &together
}

// hasLittleMemory reports whether the volume may be larger than a memory limit of the pod
// or of one of its containers.
func hasLittleMemory(pod *corev1.Pod) bool {
	var limits []corev1.ResourceList
	if pod.Spec.Resources != nil {
		limits = append(limits, pod.Spec.Resources.Limits)
	}
	for _, c := range pod.Spec.Containers {
		limits = append(limits, c.Resources.Limits)
	}
	size := resource.MustParse(volumeSize)
	return slices.ContainsFunc(limits, func(list corev1.ResourceList) bool {
		limit := list[corev1.ResourceMemory]
		return limit.Sign() > 0 && limit.Cmp(size) < 0 // 0 is no limit
	})
}
