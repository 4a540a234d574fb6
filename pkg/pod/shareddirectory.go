// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

const (
	// SharedVolumePrefix begins the name of the emptyDir of a shared directory. The rest
	// is the directory's name.
	SharedVolumePrefix = "entrypointer-shared-"
	// SharedMountPath has one directory for each directory that a container shares, under
	// its name.
	SharedMountPath = "/entrypointer/shared"
	// sharedDirectoryOption is the name of the option by which containers share
	// directories.
	sharedDirectoryOption = "shared-directory"
	// maxShared is the number of shared directories that a pod can have.
	maxShared = 16
	// maxSharedName is the rest of a DNS label's length for the name of a directory.
	maxSharedName = 63 - len(SharedVolumePrefix)
	// sharedSize bounds the content of a directory: the kubelet evicts a pod that exceeds
	// it.
	sharedSize = "1Gi"
)

// A sharing holds the directories that each container of a pod shares, by the containers'
// names, each list in the order of its annotation. A nil sharing has no directories.
type sharing map[string][]string

func (s sharing) has(container string) bool { return len(s[container]) > 0 }

// directories returns the names of all directories, sorted.
func (s sharing) directories() (names []string) {
	for _, list := range s {
		names = append(names, list...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// parseSharedDirectories parses a value of the option shared-directory.
func parseSharedDirectories(value string) (names []string, _ error) {
	wrong := text.CanBe(fmt.Sprintf("names of directories, %d at most and each once, separated by commas; a name has at most %d lower-case letters, digits and dashes, and neither begins nor ends with a dash", maxShared, maxSharedName))
	for _, name := range text.SplitList(value) {
		if !isContainerName(name) || len(name) > maxSharedName || slices.Contains(names, name) || len(names) == maxShared {
			return nil, wrong
		}
		names = append(names, name)
	}
	if names == nil {
		return nil, wrong
	}
	return names, nil
}

// sharedDirectoryFlags returns no flags: the directories are volumes.
func sharedDirectoryFlags(value string, _ target) ([]string, error) {
	_, err := parseSharedDirectories(value)
	return nil, err
}

// compileSharing reads the shared directories from the pod's annotations, and refuses
// those that are impossible. It warns of a directory that only one container names.
func (w *wrapping) compileSharing(selected []int) (s sharing, _ error) {
	among, keys := orderableOf(w.pod, selected), map[string]string{}
	for _, c := range w.pod.Spec.Containers {
		named, value, set := annotationFor(w.pod, w.owner, containerKey(sharedDirectoryOption, ""), c.Name)
		if !set {
			continue
		}
		key := containerKey(sharedDirectoryOption, named)
		names, err := parseSharedDirectories(value)
		if err != nil {
			return nil, refuse(InvalidAnnotation, "reading annotation %s: %q is wrong; %w", key, value, err)
		}
		if !among.wrapped[c.Name] {
			return nil, refuse(InvalidAnnotation, "reading annotation %s: container %q gets no shared directory, because %w", key, c.Name, among.whyUnwrapped(c.Name))
		}
		if s == nil {
			s = sharing{}
		}
		s[c.Name], keys[c.Name] = names, key
	}
	all := s.directories()
	if len(all) > maxShared {
		return nil, refuse(InvalidAnnotation, "reading annotations %s.%s/CONTAINER: the containers share %d directories, and a pod can have %d", sharedDirectoryOption, domain, len(all), maxShared)
	}
	for _, name := range all {
		if sharers := s.sharers(name); len(sharers) == 1 {
			w.warnings = append(w.warnings, warning(ReasonDirectoryNotShared, "annotation %s: no other container of the pod shares directory %q", keys[sharers[0]], name))
		}
	}
	return s, nil
}

// sharers returns the containers that share a directory, sorted.
func (s sharing) sharers(directory string) (containers []string) {
	for _, container := range slices.Sorted(maps.Keys(s)) {
		if slices.Contains(s[container], directory) {
			containers = append(containers, container)
		}
	}
	return containers
}

// installShared gives each container the directories that it shares. It removes the
// mounts and volumes of an earlier call that are no longer shared.
func (w *wrapping) installShared(pod *corev1.Pod, wrapped []int) error {
	unmounted, wanted := map[string]bool{}, map[string]bool{}
	for _, name := range w.shared.directories() {
		wanted[SharedVolumePrefix+name] = true
	}
	for _, index := range wrapped {
		if err := w.shared.mount(&pod.Spec.Containers[index], unmounted); err != nil {
			return err
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, m := range c.VolumeMounts {
			delete(unmounted, m.Name)
			if wanted[m.Name] && (!isSharedMount(m) || !w.shared.has(c.Name)) {
				return refuse(NameCollision, "adding volume %q: container %q mounts it at %q, and only containers that share the directory have such a volume; use another volume, or annotation %s.%s/%s",
					m.Name, c.Name, m.MountPath, sharedDirectoryOption, domain, c.Name)
			}
		}
	}
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return unmounted[v.Name] && !wanted[v.Name] && v.EmptyDir != nil
	})
	return w.shared.installVolumes(pod)
}

// mount mounts the directories that a container shares. It notes the volumes of removed
// mounts.
func (s sharing) mount(c *corev1.Container, unmounted map[string]bool) error {
	if !s.has(c.Name) && !slices.ContainsFunc(c.VolumeMounts, isSharedMount) {
		return nil
	}
	if s.has(c.Name) {
		if err := checkMountsAt(*c, SharedVolumePrefix+s[c.Name][0], SharedMountPath, isSharedMount); err != nil {
			return err
		}
	}
	var kept []corev1.VolumeMount
	there := map[string]bool{}
	for _, m := range c.VolumeMounts {
		name := strings.TrimPrefix(m.Name, SharedVolumePrefix)
		ours := sharedMount(name)
		switch {
		case !isSharedMount(m):
		case !slices.Contains(s[c.Name], name) || there[name]:
			unmounted[m.Name] = true
			continue
		default:
			there[name] = true
			if !sameMount(m, ours) {
				m = ours
			}
		}
		kept = append(kept, m)
	}
	for _, name := range s[c.Name] {
		if !there[name] {
			kept = append(kept, sharedMount(name))
		}
	}
	c.VolumeMounts = kept
	return nil
}

func sharedMount(name string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: SharedVolumePrefix + name, MountPath: SharedMountPath + "/" + name}
}

// isSharedMount reports whether a mount is one of these.
func isSharedMount(m corev1.VolumeMount) bool {
	name, ours := strings.CutPrefix(m.Name, SharedVolumePrefix)
	return ours && name != "" && path.Clean(m.MountPath) == SharedMountPath+"/"+name
}

// installVolumes adds the emptyDirs, or restores them. Their medium is disk: the content
// belongs to the containers, and counts against their limits, as in any emptyDir of the
// author's. For the same reason, the volumes aren't marked as safe to evict.
func (s sharing) installVolumes(pod *corev1.Pod) error {
	for _, directory := range s.directories() {
		name, size := SharedVolumePrefix+directory, resource.MustParse(sharedSize)
		wanted := corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size}}}
		at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
		switch {
		case at < 0:
			pod.Spec.Volumes = append(pod.Spec.Volumes, wanted)
		case pod.Spec.Volumes[at].EmptyDir == nil:
			return refuse(NameCollision, "adding volume %q: the pod has another one of this name; rename it", name)
		default:
			pod.Spec.Volumes[at] = wanted
		}
	}
	return nil
}
