// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// OrderVolumePrefix begins the name of the emptyDir in which a container publishes
	// its state for the containers that depend on it. The rest is the container's name.
	OrderVolumePrefix = "entrypointer-order-"
	// OrderMountPath has one directory for each such container, under its name: writable
	// for that container, read-only for the containers that depend on it.
	OrderMountPath = "/entrypointer/order"
	// orderSize bounds the content of the emptyDir: a state of 4 KiB, the next state, and
	// locks.
	orderSize = "1Mi"
)

func orderDirectory(container string) string { return OrderMountPath + "/" + container }

// orderVolumeName returns the name of a container's emptyDir. A name that is too long or
// has a dot is replaced by a dash and a hash: no container's name begins with a dash.
func orderVolumeName(container string) string {
	if len(OrderVolumePrefix)+len(container) <= validation.DNS1123LabelMaxLength && !strings.Contains(container, ".") {
		return OrderVolumePrefix + container
	}
	sum := sha256.Sum256([]byte(container))
	return OrderVolumePrefix + "-" + hex.EncodeToString(sum[:20])
}

// isOrderMount reports whether a mount is one of these.
func isOrderMount(m corev1.VolumeMount) bool {
	return strings.HasPrefix(m.Name, OrderVolumePrefix) && path.Dir(m.MountPath) == OrderMountPath && m.Name == orderVolumeName(path.Base(m.MountPath))
}

// installOrder gives each container of the order its directories, and a probe to each
// container that waits. It removes the mounts and volumes of an earlier call that are no
// longer needed.
func (w *wrapping) installOrder(pod *corev1.Pod, wrapped []int) error {
	unmounted := map[string]bool{}
	for _, index := range wrapped {
		c := &pod.Spec.Containers[index]
		if err := w.order.mount(c, unmounted); err != nil {
			return err
		}
		alignStartupProbe(c, pod, w.order.isWaiter(c.Name))
	}
	wanted := map[string]bool{}
	if w.order != nil {
		for _, name := range w.order.directories(pod) {
			wanted[orderVolumeName(name)] = true
		}
	}
	if err := w.checkOrderMounters(pod, wanted, unmounted); err != nil {
		return err
	}
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return unmounted[v.Name] && !wanted[v.Name] && v.EmptyDir != nil
	})
	return w.installOrderVolumes(pod)
}

// mount mounts the directory of the container itself, and those of the containers that it
// reads. It notes the volumes of removed mounts.
func (o *ordering) mount(c *corev1.Container, unmounted map[string]bool) error {
	wanted := o.mounts(c.Name)
	if len(wanted) == 0 && !slices.ContainsFunc(c.VolumeMounts, isOrderMount) {
		return nil
	}
	if len(wanted) > 0 {
		if err := checkMountsAt(*c, wanted[0].Name, OrderMountPath, isOrderMount); err != nil {
			return err
		}
	}
	missing := map[string]corev1.VolumeMount{}
	for _, m := range wanted {
		missing[m.Name] = m
	}
	var kept []corev1.VolumeMount
	for _, m := range c.VolumeMounts {
		ours, isWanted := missing[m.Name]
		switch {
		case !isOrderMount(m):
			kept = append(kept, m)
		case !isWanted:
			unmounted[m.Name] = true
		default:
			if sameMount(m, ours) {
				ours = m
			}
			kept = append(kept, ours)
			delete(missing, m.Name)
		}
	}
	for _, m := range wanted {
		if _, isMissing := missing[m.Name]; isMissing {
			kept = append(kept, m)
		}
	}
	c.VolumeMounts = kept
	return nil
}

// mounts returns the mounts of a container for the order.
func (o *ordering) mounts(name string) (mounts []corev1.VolumeMount) {
	if o == nil {
		return nil
	}
	if o.tells[name] {
		mounts = append(mounts, corev1.VolumeMount{Name: orderVolumeName(name), MountPath: orderDirectory(name)})
	}
	for _, other := range o.sees[name] {
		mounts = append(mounts, corev1.VolumeMount{Name: orderVolumeName(other), MountPath: orderDirectory(other), ReadOnly: true})
	}
	return append(mounts, o.pipes.mounts(name)...)
}

// directories returns the names of all directories: each has a volume.
func (o *ordering) directories(pod *corev1.Pod) (names []string) {
	add := func(name string) {
		if !slices.Contains(names, name) { // the API server refuses a duplicate name, but later
			names = append(names, name)
		}
	}
	for _, c := range pod.Spec.Containers {
		if o.tells[c.Name] {
			add(c.Name)
		}
		if own, _ := o.pipes.directories(c.Name); own != "" {
			add(own)
		}
	}
	return names
}

// checkOrderMounters refuses a container that mounts a directory of the order without a
// part in the order: it could publish states of its own. checkOrderMounters notes which
// volumes still have mounts.
func (w *wrapping) checkOrderMounters(pod *corev1.Pod, wanted, unmounted map[string]bool) error {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		hasPart := w.order.has(c.Name)
		for _, m := range c.VolumeMounts {
			delete(unmounted, m.Name)
			if wanted[m.Name] && (!hasPart || !isOrderMount(m)) {
				return refuse(NameCollision, "adding volume %q: container %q mounts it at %q, and only containers that wait for each other have such volumes; use another volume",
					m.Name, c.Name, m.MountPath)
			}
		}
	}
	return nil
}

// installOrderVolumes adds the emptyDirs, or restores them.
func (w *wrapping) installOrderVolumes(pod *corev1.Pod) error {
	if w.order == nil {
		return nil
	}
	at, marked := map[string]int{}, true
	for i, v := range slices.Backward(pod.Spec.Volumes) {
		at[v.Name] = i
	}
	for _, directory := range w.order.directories(pod) {
		name := orderVolumeName(directory)
		size := resource.MustParse(orderSize)
		// The medium is disk, because the state has to outlast a reboot: a completed
		// container isn't always run again. The size is some KiB, and fits any limit of
		// the pod.
		wanted := corev1.EmptyDirVolumeSource{SizeLimit: &size}
		i, found := at[name]
		switch {
		case !found:
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &wanted}})
		case pod.Spec.Volumes[i].EmptyDir == nil:
			return refuse(NameCollision, "adding volume %q: the pod has another one of this name; rename it", name)
		default:
			pod.Spec.Volumes[i].EmptyDir = &wanted
		}
		marked = markSafeToEvict(pod, name) && marked
	}
	if !marked {
		w.warnings = append(w.warnings, tooManyAnnotations(safeToEvictAnnotation))
	}
	return nil
}
