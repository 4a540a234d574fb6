// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package between

import corev1 "k8s.io/api/core/v1"

// A Family is a set of emptyDirs of one purpose. Each is a directory below the family's
// path, at the same place in all containers that have it.
type Family struct {
	// MountPath has one directory for each volume.
	MountPath string
	// Volumes are the names of the volumes.
	Volumes []string
	// Size bounds the content of each volume.
	Size string
	// Disposable reports whether nobody needs the content when the pod leaves its node.
	Disposable bool
	// Mounts are the mounts of each container, by its name.
	Mounts map[string][]corev1.VolumeMount
	// IsMount reports whether a mount is one of the family's.
	IsMount func(corev1.VolumeMount) bool
	// Members describes the containers that may have such a volume, and what another
	// container can do instead.
	Members func(container string) string
}
