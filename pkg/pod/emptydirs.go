// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/between"
)

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

// checkMounters refuses a container that mounts a volume of the family without being one
// of those that have it in common: it could publish states of its own. checkMounters notes
// which volumes still have mounts.
func checkMounters(pod *corev1.Pod, f between.Family, unmounted map[string]bool) error {
	wanted := map[string]bool{}
	for _, name := range f.Volumes {
		wanted[name] = true
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
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
