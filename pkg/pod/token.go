// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// accountMountPath is the path at which API servers mount the token of a pod's service
// account in each container that has no mount at exactly this path (DefaultAPITokenMountPath in
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/plugin/pkg/admission/serviceaccount/admission.go).
const accountMountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// insteadOfToken returns the mount that one of our init containers has in the place of a
// token, which it doesn't need: its own volume, read-only. API servers mount tokens before
// they call webhooks, and again after a webhook has added a container; then the pod has
// changed, and they would ask about it a second time. A pod that says that it gets no
// token needs no such mount.
func insteadOfToken(pod *corev1.Pod, volume string) []corev1.VolumeMount {
	if mounts := pod.Spec.AutomountServiceAccountToken; mounts != nil && !*mounts {
		return nil
	}
	return []corev1.VolumeMount{{Name: volume, MountPath: accountMountPath, ReadOnly: true}}
}

// withoutTaken leaves out the mount that stands in the place of a token if another volume
// is mounted there: API servers refuse two mounts at one path, and with another mount they
// add no token either. An API server may have mounted a token because a release without
// such a mount has answered before.
func withoutTaken(wanted, found []corev1.VolumeMount) []corev1.VolumeMount {
	ours := func(name string) bool {
		return slices.ContainsFunc(wanted, func(m corev1.VolumeMount) bool { return m.Name == name })
	}
	if !slices.ContainsFunc(found, func(m corev1.VolumeMount) bool { return m.MountPath == accountMountPath && !ours(m.Name) }) {
		return wanted
	}
	return slices.DeleteFunc(slices.Clone(wanted), func(m corev1.VolumeMount) bool { return m.MountPath == accountMountPath })
}
