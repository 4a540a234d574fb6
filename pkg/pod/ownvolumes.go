// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// indexOfVolume returns the index of a pod's volume, -1 without one of this name.
func indexOfVolume(pod *corev1.Pod, name string) int {
	return slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
}

// putVolume adds a volume of ours, or restores the one at an index of the pod: another
// release may have left it, another webhook may have changed it, or the pod's author may
// have forged it. A volume that isn't ours is a collision.
func putVolume(pod *corev1.Pod, at int, ours corev1.Volume, isOurs func(found corev1.VolumeSource) bool) error {
	if at < 0 {
		pod.Spec.Volumes = append(pod.Spec.Volumes, ours)
		return nil
	}
	found := &pod.Spec.Volumes[at].VolumeSource
	if !isOurs(*found) {
		return refuse(NameCollision, "adding volume %q: the pod has another one of this name; rename it", ours.Name)
	}
	if ours.Image == nil || found.Image == nil || !sameImage(found.Image.Reference, ours.Image.Reference) { // another webhook may name a mirror
		*found = ours.VolumeSource
	}
	return nil
}

// putProgramVolume is putVolume for a volume that holds programs. In an emptyDir, the
// medium that another webhook has chosen stays.
func putProgramVolume(pod *corev1.Pod, ours corev1.Volume, isOurs func(found corev1.VolumeSource) bool) error {
	at := indexOfVolume(pod, ours.Name)
	if at >= 0 && ours.EmptyDir != nil && pod.Spec.Volumes[at].EmptyDir != nil {
		ours.EmptyDir.Medium = cmp.Or(pod.Spec.Volumes[at].EmptyDir.Medium, ours.EmptyDir.Medium)
	}
	return putVolume(pod, at, ours, isOurs)
}

// markSafeToEvict tells the cluster autoscaler that it can drain the pod's node despite
// our emptyDir, whose content needn't be preserved. It returns false if there is no room
// for the annotation; then the present value, which names other volumes, stays.
func markSafeToEvict(pod *corev1.Pod, volume string) bool {
	volumes := volume
	if others := pod.Annotations[safeToEvictAnnotation]; others != "" {
		if slices.Contains(text.SplitList(others), volume) {
			return true
		}
		volumes = others + "," + volume
	}
	others, set := pod.Annotations[safeToEvictAnnotation]
	marked := annotation.Set(pod, safeToEvictAnnotation, volumes)
	if !marked && set {
		pod.Annotations[safeToEvictAnnotation] = others
	}
	return marked
}
