// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// allContainers are the init containers of a pod, and then its containers. They aren't
// copied: a Container has more than a kilobyte.
func allContainers(pod *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [...][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for at := range list {
				if !yield(&list[at]) {
					return
				}
			}
		}
	}
}
