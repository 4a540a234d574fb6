// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package between

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

const (
	// SharedVolumePrefix begins the name of the emptyDir of a shared directory. The rest
	// is the directory's name.
	SharedVolumePrefix = "entrypointer-shared-"
	// SharedMountPath has one directory for each directory that a container shares, under
	// its name.
	SharedMountPath = "/entrypointer/shared"
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

// compileSharing reads the shared directories from the pod's annotations, and refuses
// those that are impossible. It warns of a directory that only one container names.
func (b *builder) compileSharing() (s sharing, _ error) {
	among, keys := containersOf(b.Pod), map[string]string{}
	for _, c := range b.Object.Spec.Containers {
		key, value, set := b.Annotated(SharedDirectory, c.Name)
		if !set {
			continue
		}
		names, err := parseSharedDirectories(value)
		if err != nil {
			return nil, text.Errorf("reading annotation %s: %q is wrong; %w", key, value, err)
		}
		if !among.wrapped[c.Name] {
			return nil, text.Errorf("reading annotation %s: container %q gets no shared directory, because %w", key, c.Name, among.whyUnwrapped(c.Name))
		}
		if s == nil {
			s = sharing{}
		}
		s[c.Name], keys[c.Name] = names, key
	}
	all := s.directories()
	if len(all) > maxShared {
		return nil, text.Errorf("reading annotations %s.%s/CONTAINER: the containers share %d directories, and a pod can have %d", SharedDirectory, annotation.Domain, len(all), maxShared)
	}
	for _, name := range all {
		if sharers := s.sharers(name); len(sharers) == 1 {
			b.note(DirectoryNotShared, "annotation %s: no other container of the pod shares directory %q", keys[sharers[0]], name)
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

// family returns the volumes of the shared directories. Their medium is disk: the content
// belongs to the containers, and counts against their limits, as in any emptyDir of the
// author's. For the same reason, the volumes aren't marked as safe to evict.
func (s sharing) family() Family {
	f := Family{
		MountPath: SharedMountPath, Size: sharedSize, IsMount: isSharedMount,
		Members: func(container string) string {
			return text.Sprintf("containers that share the directory have such a volume; use another volume, or annotation %s.%s/%s", SharedDirectory, annotation.Domain, container)
		},
	}
	if s == nil {
		return f
	}
	f.Mounts = map[string][]corev1.VolumeMount{}
	for _, name := range s.directories() {
		f.Volumes = append(f.Volumes, SharedVolumePrefix+name)
	}
	for container, names := range s {
		for _, name := range names {
			f.Mounts[container] = append(f.Mounts[container], sharedMount(name))
		}
	}
	return f
}

func sharedMount(name string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: SharedVolumePrefix + name, MountPath: SharedMountPath + "/" + name}
}

// isSharedMount reports whether a mount is one of these.
func isSharedMount(m corev1.VolumeMount) bool {
	name, ours := strings.CutPrefix(m.Name, SharedVolumePrefix)
	return ours && name != "" && path.Clean(m.MountPath) == SharedMountPath+"/"+name
}
