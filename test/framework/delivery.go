// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// The injector's configuration by which it brings the supervisor into pods, and
// its values.
const (
	DeliveryKey   = "delivery"
	InitContainer = string(pod.DeliveryInitContainer)
	ImageVolume   = string(pod.DeliveryImageVolume)
	Claim         = string(pod.DeliveryClaim)
)

// SharedClassVariable names the storage class that tests of claims use.
const SharedClassVariable = "E2E_SHARED_STORAGE_CLASS"

// Delivery is how the supervisor came into a pod, empty if it didn't.
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

// WaitForDelivery waits until the supervisor comes into pods of a namespace in this way,
// and returns one that would be created. Each replica of the injector decides by itself,
// so ten pods in a row must agree.
func (c *Cluster) WaitForDelivery(ctx context.Context, namespace, delivery string) (would *corev1.Pod, _ error) {
	row := 0
	return would, Eventually(ctx, 2*time.Minute, "pods in namespace "+namespace+" to get "+delivery, func(ctx context.Context) (err error) {
		would, err = c.Kube.CoreV1().Pods(namespace).Create(ctx, asks(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		if got := Delivery(would); got != delivery {
			row = 0
			return fmt.Errorf("they get %s", got)
		}
		if row++; row < 10 {
			return fmt.Errorf("%d of 10 did in a row", row)
		}
		return nil
	})
}

// asks is a pod that asks for the supervisor, and that PodSecurity's strictest level
// admits.
func asks() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "asks", Annotations: map[string]string{pod.InjectAnnotation: "true"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "busybox", Command: []string{"true"},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), RunAsNonRoot: new(true), RunAsUser: new(int64(1234)),
				Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
		}}},
	}
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
