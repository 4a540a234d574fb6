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
	// littleDisk is the limit of ephemeral storage up to which the copy goes to
	// memory: above it, the copy's 2 MB are little.
	littleDisk = "128Mi"
	// imagePath is where ko puts the binary in an image, without the leading slash.
	imagePath = "ko-app"
)

// install brings the entrypoint into the pod: as a volume that an init
// container fills, or as one that the kubelet makes of an image. What another
// release of ours left, or this one under the other delivery, becomes that.
func (w *wrapping) install(pod *corev1.Pod, selected []int) error {
	if err := w.installVolume(pod); err != nil {
		return err
	}
	if err := w.installLogs(pod); err != nil {
		return err
	}
	w.alignMounts(pod)
	if err := checkWriters(pod); err != nil {
		return err
	}
	if w.Policy.ImageVolume {
		removeInitContainer(pod)
		return nil
	}
	if !markSafeToEvict(pod) {
		w.warnings = append(w.warnings, tooManyAnnotations(safeToEvictAnnotation))
	}
	return w.installInitContainer(pod, selected)
}

func (i *Injector) installVolume(pod *corev1.Pod) error {
	wanted := i.volume(pod)
	at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == VolumeName })
	switch {
	case at < 0:
		pod.Spec.Volumes = append(pod.Spec.Volumes, wanted)
	case pod.Spec.Volumes[at].EmptyDir == nil && pod.Spec.Volumes[at].Image == nil:
		return refuse(NameCollision, "adding volume %q: the pod has another one of this name; rename it", VolumeName)
	case !isVolume(pod.Spec.Volumes[at], wanted):
		pod.Spec.Volumes[at] = wanted
	case wanted.EmptyDir != nil && pod.Spec.Volumes[at].EmptyDir.Medium == corev1.StorageMediumDefault:
		pod.Spec.Volumes[at].EmptyDir.Medium = wanted.EmptyDir.Medium
	}
	return nil
}

func (i *Injector) volume(pod *corev1.Pod) corev1.Volume {
	if i.Policy.ImageVolume {
		return corev1.Volume{Name: VolumeName, VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: i.entrypointImage(pod), PullPolicy: corev1.PullIfNotPresent},
		}}
	}
	size := resource.MustParse(volumeSize)
	return corev1.Volume{Name: VolumeName, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size, Medium: medium(pod)},
	}}
}

// medium is where the emptyDir is: on disk, or in memory if the pod may use so
// little disk that the copy, which counts, would have it evicted. The kubelet
// compares what the pod uses with the sum of its containers' limits
// (podEphemeralStorageLimitEviction in
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/eviction/eviction_manager.go).
func medium(pod *corev1.Pod) corev1.StorageMedium {
	var sum resource.Quantity
	limited := false
	for _, c := range pod.Spec.Containers {
		if limit, ok := c.Resources.Limits[corev1.ResourceEphemeralStorage]; ok {
			sum.Add(limit)
			limited = true
		}
	}
	if limited && sum.Cmp(resource.MustParse(littleDisk)) <= 0 {
		return corev1.StorageMediumMemory
	}
	return corev1.StorageMediumDefault
}

// isVolume says whether a volume holds the program that the wanted one would.
// An emptyDir holds whatever the init container puts there.
func isVolume(found, wanted corev1.Volume) bool {
	if wanted.Image != nil {
		return found.Image != nil && sameImage(found.Image.Reference, wanted.Image.Reference)
	}
	return found.EmptyDir != nil
}

// mount is how a wrapped container gets at the entrypoint.
func (i *Injector) mount() corev1.VolumeMount {
	mount := corev1.VolumeMount{Name: VolumeName, MountPath: MountPath, ReadOnly: true}
	if i.Policy.ImageVolume {
		mount.SubPath = imagePath
	}
	return mount
}

// isMount says whether a mount gives a container the entrypoint to execute, in
// whichever delivery, and nothing to write. It ignores what an API server or
// another webhook may have defaulted.
func isMount(m corev1.VolumeMount) bool {
	return m.Name == VolumeName && m.MountPath == MountPath && m.ReadOnly
}

// alignMounts has all mounts of the volume lead to the program where this
// delivery has it.
func (i *Injector) alignMounts(pod *corev1.Pod) {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range containers {
			for at, m := range c.VolumeMounts {
				if isMount(m) && c.Name != InitContainerName {
					c.VolumeMounts[at].SubPath, c.VolumeMounts[at].SubPathExpr = i.mount().SubPath, ""
				}
			}
		}
	}
}

// markSafeToEvict keeps the pod as movable as it was: the cluster autoscaler
// doesn't drain a node for the sake of an emptyDir, and there is nothing to
// lose in ours. It fails if there is no room for the annotation; then the one
// that is there stays, which is about other volumes.
func markSafeToEvict(pod *corev1.Pod) bool {
	volumes := VolumeName
	if others := pod.Annotations[safeToEvictAnnotation]; others != "" {
		if slices.Contains(splitList(others), VolumeName) {
			return true
		}
		volumes = others + "," + VolumeName
	}
	others, set := pod.Annotations[safeToEvictAnnotation]
	marked := annotate(pod, safeToEvictAnnotation, volumes)
	if !marked && set {
		pod.Annotations[safeToEvictAnnotation] = others
	}
	return marked
}

// checkWriters refuses a container that could put another program in the
// entrypoint's place, or that takes the name of the one that may.
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
func checkMounts(c corev1.Container) error {
	for _, m := range c.VolumeMounts {
		if !isMount(m) && collides(m.MountPath) {
			return mountCollision(c.Name, m.Name, m.MountPath)
		}
	}
	for _, d := range c.VolumeDevices {
		if collides(d.DevicePath) {
			return mountCollision(c.Name, d.Name, d.DevicePath)
		}
	}
	// The kubelet mounts a file there.
	if c.TerminationMessagePath != "" && collides(c.TerminationMessagePath) {
		return refuse(NameCollision, "wrapping container %q: its terminationMessagePath %q is where volume %q belongs, read-only (%s); choose another",
			c.Name, c.TerminationMessagePath, VolumeName, MountPath)
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
