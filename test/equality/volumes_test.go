// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package equality

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// provideVolumes makes a volume for each claim that no storage class cares for:
// a directory on the node. Kubernetes deletes it with the claim, because it is
// in /tmp.
func (w *watch) provideVolumes(ctx context.Context) error {
	claims, err := cluster.Kube.CoreV1().PersistentVolumeClaims(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if w.volumes[claim.Name] || claim.Spec.StorageClassName != nil || claim.Status.Phase != corev1.ClaimPending {
			continue
		}
		_, err := cluster.Kube.CoreV1().PersistentVolumes().Create(ctx, volumeFor(claim), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("making a volume for claim %q in namespace %q: %w", claim.Name, w.namespace, err)
		}
		w.volumes[claim.Name] = true
	}
	return nil
}

func volumeFor(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	create := corev1.HostPathDirectoryOrCreate
	name := fmt.Sprintf("equality-%s", claim.UID)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{ours: "true"}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/" + name, Type: &create},
			},
		},
	}
}
