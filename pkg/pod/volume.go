// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// imagePath is the directory of the binary in an image that ko builds, without the leading
// slash.
const imagePath = "ko-app"

// The directories of the binaries in a claim. Each has its own directory, which is
// mounted.
const (
	ClaimPath         = "plain/entrypoint"
	ClaimPathWithLogs = "with-logs/entrypoint"
)

// ClaimPrefix begins the name of every claim that holds the supervisor.
const ClaimPrefix = "entrypointer-"

// claimName matches the names of such claims.
var claimName = regexp.MustCompile(`^` + ClaimPrefix + `[0-9a-f]{12}$`)

// install brings the supervisor into the pod: as a volume that an init container fills,
// or as an image or a claim that already holds the supervisor. It converts the volume of
// another release, or of another delivery.
func (w *wrapping) install(pod *corev1.Pod, selected []int) error {
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
	return w.installTools(pod, selected)
}

func (w *wrapping) installVolume(pod *corev1.Pod) error {
	ours := corev1.Volume{Name: VolumeName, VolumeSource: meansOf(w.delivery).source(w, pod)}
	return putProgramVolume(pod, ours, isOurs)
}

// isOurs reports whether a volume of our name may come from a release of ours.
func isOurs(found corev1.VolumeSource) bool {
	return slices.ContainsFunc(deliveries, func(m means) bool { return m.isOurs != nil && m.isOurs(found) })
}

// mount returns the mount of the supervisor in a wrapped container.
func (w *wrapping) mount(pod *corev1.Pod) corev1.VolumeMount {
	_, mount := EntrypointVolume("")
	mount.SubPath = meansOf(w.delivery).directory(w, pod)
	return mount
}

// EntrypointVolume returns the volume of the supervisor's image for [DeliveryImageVolume], and
// its mount for the containers that run [EntrypointPath].
func EntrypointVolume(image string) (corev1.Volume, corev1.VolumeMount) {
	return corev1.Volume{Name: VolumeName, VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: image, PullPolicy: corev1.PullIfNotPresent},
		}},
		corev1.VolumeMount{Name: VolumeName, MountPath: MountPath, SubPath: imagePath, ReadOnly: true}
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
