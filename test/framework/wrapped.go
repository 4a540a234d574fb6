// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// CheckStepsWrapped says what is missing in a TaskRun's pod for all of its steps,
// and nothing else, to run under the supervisor.
func CheckStepsWrapped(p *corev1.Pod) error {
	first := len(p.Spec.InitContainers) > 0 && p.Spec.InitContainers[0].Name == pod.InitContainerName
	if !first && Delivery(p) != ImageVolume && Delivery(p) != Claim {
		return fmt.Errorf("the first init container of pod %q isn't %q", p.Name, pod.InitContainerName)
	}
	if status, want := p.Annotations[pod.StatusAnnotation], "Injected by "+Delivery(p); status != want {
		return fmt.Errorf("the annotation %s of pod %q is %q, not %q", pod.StatusAnnotation, p.Name, status, want)
	}
	for _, c := range p.Spec.Containers {
		step := strings.HasPrefix(c.Name, "step-")
		if wrapped := slices.Equal(c.Command, []string{pod.EntrypointPath}); wrapped != step {
			return fmt.Errorf("container %q of pod %q has command %q", c.Name, p.Name, c.Command)
		}
	}
	return nil
}

// CheckNotWrapped says what of ours is in a pod, but for an annotation that tells why
// it was left alone.
func CheckNotWrapped(p *corev1.Pod) error {
	for _, c := range p.Spec.InitContainers {
		if c.Name == pod.InitContainerName {
			return fmt.Errorf("pod %q has init container %q", p.Name, c.Name)
		}
	}
	for _, v := range p.Spec.Volumes {
		if v.Name == pod.VolumeName {
			return fmt.Errorf("pod %q has volume %q", p.Name, v.Name)
		}
	}
	for _, c := range p.Spec.Containers {
		if slices.Contains(c.Command, pod.EntrypointPath) {
			return fmt.Errorf("container %q of pod %q has command %q", c.Name, p.Name, c.Command)
		}
	}
	if status := p.Annotations[pod.StatusAnnotation]; strings.HasPrefix(status, string(pod.Injected)) {
		return fmt.Errorf("pod %q has annotation %s: %s", p.Name, pod.StatusAnnotation, status)
	}
	return nil
}
