// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// The injector's configuration by which it brings the entrypoint into pods, and
// its values.
const (
	DeliveryKey   = "delivery"
	InitContainer = string(pod.InitContainer)
	ImageVolume   = string(pod.ImageVolume)
	Claim         = string(pod.Claim)
)

// Delivery is how the entrypoint came into a pod, empty if it didn't.
func Delivery(p *corev1.Pod) string {
	for _, v := range p.Spec.Volumes {
		switch {
		case v.Name != pod.VolumeName:
		case v.Image != nil:
			return ImageVolume
		case v.PersistentVolumeClaim != nil:
			return Claim
		default:
			return InitContainer
		}
	}
	return ""
}

// HasImageVolumes reports whether pods may mount images without a feature gate.
func (c *Cluster) HasImageVolumes() (bool, error) {
	server, err := c.Kube.Discovery().ServerVersion()
	if err != nil {
		return false, fmt.Errorf("asking for the API server's version: %w", err)
	}
	v, err := version.ParseGeneric(server.GitVersion)
	if err != nil {
		return false, fmt.Errorf("understanding the API server's version: %w", err)
	}
	return v.AtLeast(version.MajorMinor(1, 35)), nil
}
