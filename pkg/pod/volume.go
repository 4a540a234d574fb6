// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// volumeSize bounds the emptyDir: one binary, and a second while the first is replaced.
	volumeSize = "32Mi"
	// imagePath is where ko puts the binary in an image, without the leading slash.
	imagePath = "ko-app"
)

// install brings the entrypoint into the pod, unless it is there: as a volume
// that an init container fills, or as one that the kubelet makes of an image.
func (i *Injector) install(pod *corev1.Pod, selected []int) error {
	if err := i.installVolume(pod); err != nil {
		return err
	}
	if err := i.checkWriters(pod); err != nil {
		return err
	}
	if i.Policy.ImageVolume {
		return nil
	}
	return i.installInitContainer(pod, selected)
}

func (i *Injector) installVolume(pod *corev1.Pod) error {
	wanted := i.volume()
	at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == VolumeName })
	switch {
	case at < 0:
		pod.Spec.Volumes = append(pod.Spec.Volumes, wanted)
		if !i.Policy.ImageVolume {
			markSafeToEvict(pod)
		}
		return nil
	case i.isOurVolume(pod.Spec.Volumes[at]):
		return nil
	default:
		return refuse(NameCollision, "adding volume %q: the pod has another one of this name; rename it", VolumeName)
	}
}

func (i *Injector) volume() corev1.Volume {
	if i.Policy.ImageVolume {
		return corev1.Volume{Name: VolumeName, VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: i.EntrypointImage, PullPolicy: corev1.PullIfNotPresent},
		}}
	}
	size := resource.MustParse(volumeSize)
	return corev1.Volume{Name: VolumeName, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size},
	}}
}

// isOurVolume looks at what decides whose program the volume holds.
func (i *Injector) isOurVolume(v corev1.Volume) bool {
	if i.Policy.ImageVolume {
		return v.Image != nil && v.Image.Reference == i.EntrypointImage
	}
	return v.EmptyDir != nil
}

// mount is how a wrapped container gets at the entrypoint.
func (i *Injector) mount() corev1.VolumeMount {
	mount := corev1.VolumeMount{Name: VolumeName, MountPath: MountPath, ReadOnly: true}
	if i.Policy.ImageVolume {
		mount.SubPath = imagePath
	}
	return mount
}

// isOurMount ignores what an API server or another webhook may have defaulted.
func (i *Injector) isOurMount(m corev1.VolumeMount) bool {
	ours := i.mount()
	return m.Name == ours.Name && m.MountPath == ours.MountPath && m.ReadOnly && m.SubPath == ours.SubPath && m.SubPathExpr == ""
}

// markSafeToEvict keeps the pod as movable as it was: the cluster autoscaler
// doesn't drain a node for the sake of an emptyDir, and there is nothing to
// lose in ours.
func markSafeToEvict(pod *corev1.Pod) {
	volumes := VolumeName
	if others := pod.Annotations[safeToEvictAnnotation]; others != "" {
		volumes = others + "," + VolumeName
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[safeToEvictAnnotation] = volumes
}

// checkWriters refuses a container that could put another program in the
// entrypoint's place, or that takes the name of the one that may.
func (i *Injector) checkWriters(pod *corev1.Pod) error {
	for _, c := range pod.Spec.Containers {
		if c.Name == InitContainerName {
			return refuse(NameCollision, "adding init container %q: the pod has a container of this name, image %q; rename it", c.Name, c.Image)
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, m := range c.VolumeMounts {
			if m.Name == VolumeName && !i.isOurMount(m) && c.Name != InitContainerName {
				return refuse(NameCollision, "adding volume %q: container %q mounts it at %q, and only %q may write to it; use another volume",
					VolumeName, c.Name, m.MountPath, InitContainerName)
			}
		}
	}
	return nil
}

// checkMounts refuses a mount of the author's that would hide ours or be hidden by it.
func (i *Injector) checkMounts(c corev1.Container) error {
	for _, m := range c.VolumeMounts {
		if !i.isOurMount(m) && collides(m.MountPath) {
			return mountCollision(c.Name, m.Name, m.MountPath)
		}
	}
	for _, d := range c.VolumeDevices {
		if collides(d.DevicePath) {
			return mountCollision(c.Name, d.Name, d.DevicePath)
		}
	}
	return nil
}

func mountCollision(container, volume, at string) error {
	return refuse(NameCollision, "wrapping container %q: its volume %q is mounted at %q, where volume %q belongs, read-only (%s); mount it elsewhere",
		container, volume, at, VolumeName, MountPath)
}

// collides says whether one of p and MountPath is within the other. The
// kubelet takes a relative path for one from the root.
func collides(p string) bool {
	if !path.IsAbs(p) {
		p = "/" + p
	}
	p = path.Clean(p)
	return within(MountPath, p) || within(p, MountPath)
}

// within says whether p is dir or lies in it.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}
