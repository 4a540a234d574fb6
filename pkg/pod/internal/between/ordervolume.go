// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package between

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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

// family returns the volumes of the order. Their medium is disk, because the state has to
// outlast a reboot: a completed container isn't always run again. The size is some KiB,
// and fits any limit of the pod.
func (o *ordering) family(pod *corev1.Pod) Family {
	f := Family{
		MountPath: OrderMountPath, Size: orderSize, Disposable: true, IsMount: isOrderMount,
		Members: func(string) string {
			return "containers that wait for each other have such volumes; use another volume"
		},
	}
	if o == nil {
		return f
	}
	f.Mounts = map[string][]corev1.VolumeMount{}
	for _, name := range o.directories(pod) {
		f.Volumes = append(f.Volumes, orderVolumeName(name))
	}
	for _, c := range pod.Spec.Containers {
		if o.has(c.Name) {
			f.Mounts[c.Name] = o.mounts(c.Name)
		}
	}
	return f
}

// mounts returns the mounts of a container for the order.
func (o *ordering) mounts(name string) (mounts []corev1.VolumeMount) {
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
