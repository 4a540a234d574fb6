// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package equality

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Cause is why an example differs, where that is seen and can't be helped.
type Cause string

// SharedMessages is the one cause that there is.
const SharedMessages Cause = "the kubelet shares 12 KiB of termination messages among all containers of a pod. " +
	"With the init container the pod has one container more, so the share of each step, in which Tekton passes its results, is smaller: " +
	"12 KiB / 4 instead of 12 KiB / 3 for a pod with one step and a script. The kubelet truncates a longer message, and its results are lost."

// messages is what the kubelet lets the containers of a pod say in all
// (k8s.io/kubernetes/pkg/kubelet/container.MaxPodTerminationMessageLogLength).
const messages = 12 * 1024

// CutMessages names the containers whose termination message has exactly the
// length to which the kubelet cuts it.
func CutMessages(p *corev1.Pod) (cut []string) {
	share := messages / max(1, len(p.Spec.InitContainers)+len(p.Spec.Containers)+len(p.Spec.EphemeralContainers))
	for _, status := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if end := status.State.Terminated; end != nil && len(end.Message) == share {
			cut = append(cut, p.Name+"/"+status.Name)
		}
	}
	return cut
}
