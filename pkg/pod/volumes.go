// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/between"
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

// sameImage reports whether two references have the same digest. The registry doesn't
// matter, because the container runtime verifies the digest.
func sameImage(a, b string) bool {
	return a == b || digestOf(a) != "" && digestOf(a) == digestOf(b)
}

func digestOf(reference string) string {
	if at := strings.LastIndexByte(reference, '@'); at >= 0 {
		return reference[at+1:]
	}
	return ""
}

// A programVolume is a volume of ours that holds programs.
type programVolume struct {
	corev1.Volume
	mount corev1.VolumeMount // in the containers that run them
	// isOurs and isMount recognise what a release of ours may have left.
	isOurs  func(found corev1.VolumeSource) bool
	isMount func(found corev1.VolumeMount) bool
}

// putInto brings the volume into the pod, and mounts it in those of the wrapped containers
// that run its programs; nil stands for all of them. In other containers, it replaces the mount that another release or
// another delivery has left. In an emptyDir, the medium that another webhook has chosen
// stays.
func (v programVolume) putInto(pod *corev1.Pod, wrapped []int, runs func(at int) bool) error {
	updateMounts(pod.Spec.InitContainers, v.isMount, v.mount)
	updateMounts(pod.Spec.Containers, v.isMount, v.mount)
	for at, index := range wrapped {
		var ours []corev1.VolumeMount
		if runs == nil || runs(at) {
			ours = append(ours, v.mount)
		}
		if err := addMounts(&pod.Spec.Containers[index], v.mount.MountPath, v.isMount, ours...); err != nil {
			return err
		}
	}
	at := indexOfVolume(pod, v.Name)
	if at >= 0 && v.EmptyDir != nil && pod.Spec.Volumes[at].EmptyDir != nil {
		v.EmptyDir.Medium = cmp.Or(pod.Spec.Volumes[at].EmptyDir.Medium, v.EmptyDir.Medium)
	}
	return putVolume(pod, at, v.Volume, v.isOurs)
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

// isMount reports whether a mount makes the supervisor executable in a container, by any
// delivery, and not writable. It ignores defaults of an API server or of another webhook.
func isMount(m corev1.VolumeMount) bool {
	return m.Name == VolumeName && m.MountPath == MountPath && m.ReadOnly
}

// checkMounts refuses a mount of the author's that would hide ours or be hidden by it.
func checkMounts(c *corev1.Container) error { return checkMountsAt(c, VolumeName, MountPath, isMount) }

// checkMountsAt is checkMounts for a given volume of ours and its mount path.
func checkMountsAt(c *corev1.Container, volume, at string, allowed func(corev1.VolumeMount) bool) error {
	collision := func(theirs, path string) error {
		return refuse(NameCollision, "wrapping container %q: its volume %q is mounted at %q, where volume %q belongs, read-only (%s); mount it elsewhere",
			c.Name, theirs, path, volume, at)
	}
	for _, m := range c.VolumeMounts {
		if !allowed(m) && collides(m.MountPath, at) {
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

// addMounts gives a container mounts of ours below a path, and removes the others that
// isOurs recognises, which an earlier call has left.
func addMounts(c *corev1.Container, below string, isOurs func(corev1.VolumeMount) bool, ours ...corev1.VolumeMount) error {
	if len(ours) > 0 {
		if err := checkMountsAt(c, ours[0].Name, below, isOurs); err != nil {
			return err
		}
	}
	c.VolumeMounts = withMounts(c.VolumeMounts, ours, func(m corev1.VolumeMount) bool { return !isOurs(m) })
	return nil
}

// updateMounts replaces mounts that another release or another delivery has left by ours,
// in the containers that have one.
func updateMounts(containers []corev1.Container, isOurs func(corev1.VolumeMount) bool, ours corev1.VolumeMount) {
	for at := range containers {
		if c := &containers[at]; slices.ContainsFunc(c.VolumeMounts, isOurs) {
			c.VolumeMounts = withMounts(c.VolumeMounts, []corev1.VolumeMount{ours}, func(m corev1.VolumeMount) bool { return !isOurs(m) })
		}
	}
}

// withMounts returns the found mounts with each of ours once, in its place if it is among
// them. Of the others, those stay that keep accepts.
func withMounts(found, ours []corev1.VolumeMount, keep func(corev1.VolumeMount) bool) (mounts []corev1.VolumeMount) {
	if len(ours) == 0 && !slices.ContainsFunc(found, func(m corev1.VolumeMount) bool { return !keep(m) }) {
		return found
	}
	missing := slices.Clone(ours)
	mounts = make([]corev1.VolumeMount, 0, len(found)+len(ours))
	for _, m := range found {
		at := slices.IndexFunc(missing, func(wanted corev1.VolumeMount) bool { return m.Name == wanted.Name && m.MountPath == wanted.MountPath })
		switch {
		case at >= 0:
			if !sameMount(m, missing[at]) {
				m = missing[at]
			}
			missing = slices.Delete(missing, at, at+1)
			mounts = append(mounts, m)
		case keep(m):
			mounts = append(mounts, m)
		}
	}
	return append(mounts, missing...)
}

// sameMount reports whether a mount has the effect of the wanted mount.
func sameMount(m, wanted corev1.VolumeMount) bool {
	return m.Name == wanted.Name && m.MountPath == wanted.MountPath && m.ReadOnly == wanted.ReadOnly && m.SubPath == wanted.SubPath && m.SubPathExpr == "" &&
		(m.MountPropagation == nil || *m.MountPropagation == corev1.MountPropagationNone)
}

// endangers reports whether a mount at p is at, above or below a protected path. The
// meaning of ".." depends on symbolic links, so it counts as a danger.
func endangers(protected []string, p string) bool {
	p = "/" + p
	if slices.Contains(strings.Split(p, "/"), "..") {
		return true
	}
	p = path.Clean(p)
	return slices.ContainsFunc(protected, func(ours string) bool { return within(ours, p) || within(p, ours) })
}

// installFamilies gives each container the directories that it has in common with others,
// and a probe to each container that waits. It removes the mounts and volumes of an
// earlier call that are no longer needed.
func (w *wrapping) installFamilies(pod *corev1.Pod, wrapped []int) error {
	for _, f := range w.plan.Families() {
		if err := w.installFamily(pod, wrapped, f); err != nil {
			return err
		}
	}
	for _, index := range wrapped {
		w.plan.AlignStartupProbe(&pod.Spec.Containers[index])
	}
	return nil
}

func (w *wrapping) installFamily(pod *corev1.Pod, wrapped []int, f between.Family) error {
	unmounted := map[string]bool{}
	for _, index := range wrapped {
		c := &pod.Spec.Containers[index]
		for _, m := range c.VolumeMounts {
			unmounted[m.Name] = unmounted[m.Name] || f.IsMount(m)
		}
		if err := addMounts(c, f.MountPath, f.IsMount, f.Mounts[c.Name]...); err != nil {
			return err
		}
	}
	if err := checkMounters(pod, f, unmounted); err != nil {
		return err
	}
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return unmounted[v.Name] && v.EmptyDir != nil && !slices.Contains(f.Volumes, v.Name)
	})
	return w.addEmptyDirs(pod, f)
}

// allContainers are the init containers of a pod, and then its containers. A Container has
// more than a kilobyte, so none is copied.
func allContainers(pod *corev1.Pod) []*corev1.Container {
	list := make([]*corev1.Container, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	for at := range pod.Spec.InitContainers {
		list = append(list, &pod.Spec.InitContainers[at])
	}
	for at := range pod.Spec.Containers {
		list = append(list, &pod.Spec.Containers[at])
	}
	return list
}

// checkMounters refuses a container that mounts a volume of the family without being one
// of those that have it in common: it could publish states of its own. checkMounters notes
// which volumes still have mounts.
func checkMounters(pod *corev1.Pod, f between.Family, unmounted map[string]bool) error {
	wanted := map[string]bool{}
	for _, name := range f.Volumes {
		wanted[name] = true
	}
	for _, c := range allContainers(pod) {
		for _, m := range c.VolumeMounts {
			delete(unmounted, m.Name)
			if wanted[m.Name] && (len(f.Mounts[c.Name]) == 0 || !f.IsMount(m)) {
				return refuse(NameCollision, "adding volume %q: container %q mounts it at %q, and only %w",
					m.Name, c.Name, m.MountPath, errors.New(f.Members(c.Name)))
			}
		}
	}
	return nil
}

// addEmptyDirs adds the volumes, or restores them.
func (w *wrapping) addEmptyDirs(pod *corev1.Pod, f between.Family) error {
	if len(f.Volumes) == 0 {
		return nil
	}
	at, marked := map[string]int{}, true
	for i, v := range slices.Backward(pod.Spec.Volumes) {
		at[v.Name] = i
	}
	for _, name := range f.Volumes {
		i, found := at[name]
		if !found {
			i = -1
		}
		ours := corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse(f.Size))}}}
		if err := putVolume(pod, i, ours, func(found corev1.VolumeSource) bool { return found.EmptyDir != nil }); err != nil {
			return err
		}
		marked = (!f.Disposable || markSafeToEvict(pod, name)) && marked
	}
	if !marked {
		w.warn(tooManyAnnotations(safeToEvictAnnotation))
	}
	return nil
}
