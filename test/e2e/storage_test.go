// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/test/framework"
)

// sharedClass is a storage class whose volumes all nodes can mount at once.
func sharedClass(t *testing.T) string {
	t.Helper()
	class := os.Getenv(framework.SharedClassVariable)
	if class == "" {
		t.Skip(framework.SharedClassVariable + " names no storage class of volumes that many nodes can mount")
	}
	return class
}

// withClaim mounts a claim at /claim.
func withClaim(p *corev1.Pod, claim string) *corev1.Pod {
	p.Spec.Volumes = []corev1.Volume{{Name: "claim", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "claim", MountPath: "/claim"}}
	return p
}

func TestWhatOnePodWritesToASharedClaimAnotherReads(t *testing.T) {
	t.Parallel()
	class, namespace := sharedClass(t), plainNamespace(t)
	_, err := cluster.Kube.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "shared"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	createPod(t, namespace, withClaim(askingPod("writer", busybox(t, "main", "sh", "-c", "echo written > /claim/file")), "shared"))
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "writer").Status.Phase)
	createPod(t, namespace, withClaim(askingPod("reader", busybox(t, "main", "cat", "/claim/file")), "shared"))
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "reader").Status.Phase)
	require.Equal(t, "written\n", logs(t, namespace, "reader", "main"))
}
