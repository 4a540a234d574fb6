// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

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
	missing := slices.Clone(ours)
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
