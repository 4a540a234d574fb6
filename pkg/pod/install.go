// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// install brings the supervisor into the pod: as a volume that an init container fills,
// or as an image or a claim that already holds the supervisor. It converts the volume of
// another release, or of another delivery.
func (w *wrapping) install(pod *corev1.Pod, wrapped []container) error {
	selected := make([]int, len(wrapped))
	for at, c := range wrapped {
		selected[at] = c.index
	}
	if err := w.installVolume(pod); err != nil {
		return err
	}
	if err := w.installLogs(pod); err != nil {
		return err
	}
	if err := w.installFamilies(pod, selected); err != nil {
		return err
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		updateMounts(containers, isMount, w.mount(pod))
	}
	if err := checkWriters(pod); err != nil {
		return err
	}
	if err := w.installCopier(pod, selected); err != nil {
		return err
	}
	return w.installTools(pod, wrapped, selected)
}

func (w *wrapping) installVolume(pod *corev1.Pod) error {
	ours := corev1.Volume{Name: VolumeName, VolumeSource: meansOf(w.delivery).source(w, pod)}
	return putProgramVolume(pod, ours, isOurs)
}

// isOurs reports whether a volume of our name may come from a release of ours.
func isOurs(found corev1.VolumeSource) bool {
	return slices.ContainsFunc(deliveries, func(m means) bool { return m.isOurs != nil && m.isOurs(found) })
}

// checkWriters refuses a container that could replace the supervisor by another program,
// or that has the name of the init container that may write.
func checkWriters(pod *corev1.Pod) error {
	for _, c := range pod.Spec.Containers {
		if c.Name == InitContainerName {
			return refuse(NameCollision, "adding init container %q: the pod has a container of this name, image %q; rename it", c.Name, c.Image)
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, m := range c.VolumeMounts {
			if m.Name == VolumeName && !isMount(m) && c.Name != InitContainerName {
				return refuse(NameCollision, "adding volume %q: container %q mounts it at %q, and only %q may write to it; use another volume",
					VolumeName, c.Name, m.MountPath, InitContainerName)
			}
		}
	}
	return nil
}
