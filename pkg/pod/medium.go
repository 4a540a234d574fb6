// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// littleDisk is the limit of ephemeral storage up to which all copies are in memory:
// on disk, they would have the pod evicted.
var littleDisk = resource.MustParse("128Mi")

// entrypointMedium is where the emptyDir of the supervisor is: on disk, or in memory
// if the kubelet limits what the pod may use of the disk. An emptyDir on disk counts
// against that limit, one in memory doesn't (IsLocalEphemeralVolume in
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/volume/util/util.go).
//
// The kernel charges the memory, 2 MB or 7 with logs, to the init container that
// writes the copy, and to the pod once that has ended: never to a container of the
// author's. A limit of memory in which the volume wouldn't fit keeps the copy on disk,
// unless the disk is little, too.
func entrypointMedium(pod *corev1.Pod) corev1.StorageMedium {
	disk := storageLimit(pod)
	if disk == nil || disk.Cmp(littleDisk) > 0 && hasLittleMemory(pod) {
		return corev1.StorageMediumDefault
	}
	return corev1.StorageMediumMemory
}

// toolsMedium is where the emptyDir of tools is: a tool may have [toolSize], which
// takes more of most pods' memory than of their disk.
func toolsMedium(pod *corev1.Pod) corev1.StorageMedium {
	if disk := storageLimit(pod); disk == nil || disk.Cmp(littleDisk) > 0 {
		return corev1.StorageMediumDefault
	}
	return corev1.StorageMediumMemory
}

// storageLimit is what the kubelet lets a pod use of the node's disk, nil if it lets
// it use all: what containers have together, or what init containers have before them if
// that is more (podEphemeralStorageLimitEviction in
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/eviction/eviction_manager.go).
func storageLimit(pod *corev1.Pod) *resource.Quantity {
	limitOf := func(c corev1.Container) (resource.Quantity, bool) {
		limit, limited := c.Resources.Limits[corev1.ResourceEphemeralStorage]
		return limit.DeepCopy(), limited // or large ones would share what is added to them
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

// hasLittleMemory reports whether the pod or one of its containers may use less memory
// than the volume may take.
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
