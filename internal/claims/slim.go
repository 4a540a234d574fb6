// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxUID is longer than any UID of an API server.
const maxUID = 64

// slimClaim keeps only the metadata of a claim that the reconciler reads. A tenant may
// put the reconciler's label on any number of claims, each with annotations of 256 KiB.
func slimClaim(object any) (any, error) {
	claim, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	slim := &metav1.PartialObjectMetadata{TypeMeta: claim.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Name: claim.Name, Namespace: claim.Namespace, UID: claim.UID, ResourceVersion: claim.ResourceVersion, DeletionTimestamp: claim.DeletionTimestamp,
	}}
	if of := metav1.GetControllerOf(claim); of != nil && of.Kind == Kind && of.Name == Name && len(of.UID) <= maxUID {
		slim.OwnerReferences = []metav1.OwnerReference{{Kind: of.Kind, Name: of.Name, UID: of.UID, Controller: of.Controller}}
	}
	return slim, nil
}

// slimVolume removes the metadata of a SupervisorVolume that the reconciler doesn't read.
// Writing the status changes no metadata.
func slimVolume(object any) (any, error) {
	v, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	slim := &unstructured.Unstructured{Object: maps.Clone(v.Object)}
	metadata := map[string]any{}
	if all, ok := v.Object["metadata"].(map[string]any); ok {
		for _, key := range []string{"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"} {
			if value, set := all[key]; set {
				metadata[key] = value
			}
		}
	}
	slim.Object["metadata"] = metadata
	if value, set := v.GetLabels()[managedByLabel]; set {
		slim.SetLabels(map[string]string{managedByLabel: value})
	}
	return slim, nil
}
