// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

const (
	// volumeSize bounds the emptyDir: one binary, and a second while the first is replaced.
	volumeSize = "32Mi"
	// imagePath is the directory of the binary in an image that ko builds, without the
	// leading slash.
	imagePath = "ko-app"
)

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
	w.alignMounts(pod)
	if err := checkWriters(pod); err != nil {
		return err
	}
	if w.delivery != InitContainer {
		removeInitContainer(pod)
		return w.installTools(pod, selected)
	}
	if !markSafeToEvict(pod, VolumeName) {
		w.warnings = append(w.warnings, tooManyAnnotations(safeToEvictAnnotation))
	}
	if err := w.installInitContainer(pod, selected); err != nil {
		return err
	}
	return w.installTools(pod, selected)
}

func (w *wrapping) installVolume(pod *corev1.Pod) error {
	wanted := w.volume(pod)
	at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == VolumeName })
	switch {
	case at < 0:
		pod.Spec.Volumes = append(pod.Spec.Volumes, wanted)
	case !isOurs(pod.Spec.Volumes[at]):
		return refuse(NameCollision, "adding volume %q: the pod has another one of this name; rename it", VolumeName)
	case !isVolume(pod.Spec.Volumes[at], wanted):
		pod.Spec.Volumes[at] = wanted
	case wanted.EmptyDir != nil && pod.Spec.Volumes[at].EmptyDir.Medium == corev1.StorageMediumDefault:
		pod.Spec.Volumes[at].EmptyDir.Medium = wanted.EmptyDir.Medium
	}
	return nil
}

// isOurs reports whether a volume of our name may come from a release of ours.
func isOurs(v corev1.Volume) bool {
	return v.EmptyDir != nil || v.Image != nil ||
		v.PersistentVolumeClaim != nil && claimName.MatchString(v.PersistentVolumeClaim.ClaimName)
}

func (w *wrapping) volume(pod *corev1.Pod) corev1.Volume {
	switch w.delivery {
	case Claim:
		return corev1.Volume{Name: VolumeName, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: w.Claim, ReadOnly: true},
		}}
	case ImageVolume:
		volume, _ := EntrypointVolume(w.entrypointImage(pod))
		return volume
	}
	size := resource.MustParse(volumeSize)
	return corev1.Volume{Name: VolumeName, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size, Medium: entrypointMedium(pod)},
	}}
}

// isVolume reports whether a volume holds the same program as the wanted volume. An
// emptyDir holds the program that the init container copies.
func isVolume(found, wanted corev1.Volume) bool {
	switch {
	case wanted.Image != nil:
		return found.Image != nil && sameImage(found.Image.Reference, wanted.Image.Reference)
	case wanted.PersistentVolumeClaim != nil:
		return found.PersistentVolumeClaim != nil && *found.PersistentVolumeClaim == *wanted.PersistentVolumeClaim
	}
	return found.EmptyDir != nil
}

// mount returns the mount of the supervisor in a wrapped container.
func (w *wrapping) mount(pod *corev1.Pod) corev1.VolumeMount {
	_, mount := EntrypointVolume("")
	switch w.delivery {
	case ImageVolume:
	case Claim:
		mount.SubPath = path.Dir(w.claimPath(pod))
	default:
		mount.SubPath = ""
	}
	return mount
}

// EntrypointVolume returns the volume of the supervisor's image for [ImageVolume], and
// its mount for the containers that run [EntrypointPath].
func EntrypointVolume(image string) (corev1.Volume, corev1.VolumeMount) {
	return corev1.Volume{Name: VolumeName, VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: image, PullPolicy: corev1.PullIfNotPresent},
		}},
		corev1.VolumeMount{Name: VolumeName, MountPath: MountPath, SubPath: imagePath, ReadOnly: true}
}

// isMount reports whether a mount makes the supervisor executable in a container, by any
// delivery, and not writable. It ignores defaults of an API server or of another webhook.
func isMount(m corev1.VolumeMount) bool {
	return m.Name == VolumeName && m.MountPath == MountPath && m.ReadOnly
}

// alignMounts points all mounts of the volume to the program's directory under this
// delivery.
func (w *wrapping) alignMounts(pod *corev1.Pod) {
	wanted := w.mount(pod)
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range containers {
			for at, m := range c.VolumeMounts {
				if isMount(m) && c.Name != InitContainerName {
					c.VolumeMounts[at].SubPath, c.VolumeMounts[at].SubPathExpr = wanted.SubPath, ""
				}
			}
		}
	}
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
	marked := annotate(pod, safeToEvictAnnotation, volumes)
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

// checkMounts refuses a mount of the author's that would hide ours or be hidden by it.
func checkMounts(c corev1.Container) error { return checkMountsAt(c, VolumeName, MountPath, isMount) }

// checkMountsAt is checkMounts for a given volume of ours and its mount path.
func checkMountsAt(c corev1.Container, volume, at string, isOurs func(corev1.VolumeMount) bool) error {
	collision := func(theirs, path string) error {
		return refuse(NameCollision, "wrapping container %q: its volume %q is mounted at %q, where volume %q belongs, read-only (%s); mount it elsewhere",
			c.Name, theirs, path, volume, at)
	}
	for _, m := range c.VolumeMounts {
		if !isOurs(m) && collides(m.MountPath, at) {
			return collision(m.Name, m.MountPath)
		}
	}
	for _, d := range c.VolumeDevices {
		if collides(d.DevicePath, at) {
			return collision(d.Name, d.DevicePath)
		}
	}
	// The kubelet mounts a file there.
	if c.TerminationMessagePath != "" && collides(c.TerminationMessagePath, at) {
		return refuse(NameCollision, "wrapping container %q: its terminationMessagePath %q is where volume %q belongs, read-only (%s); choose another",
			c.Name, c.TerminationMessagePath, volume, at)
	}
	return nil
}

// collides reports whether one of p and ours is within the other. The kubelet resolves a
// relative path from the root.
func collides(p, ours string) bool {
	if !path.IsAbs(p) {
		p = "/" + p
	}
	p = path.Clean(p)
	return within(ours, p) || within(p, ours)
}

// within reports whether p is dir or lies in it.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}
