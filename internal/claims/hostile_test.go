// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Whoever may create claims anywhere may label them as ours.
func TestWhatSomebodyWritesIntoMetadataIsNotKept(t *testing.T) {
	long := strings.Repeat("x", 1<<18)
	heavy := metav1.ObjectMeta{
		Name: Name, Namespace: "tenant", UID: "volume", Generation: 1, ResourceVersion: "1",
		Labels:        maps.Clone(ours()),
		Annotations:   map[string]string{"long": long},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:` + long + `":{}}`)}},
		Finalizers:    []string{"example.test/" + long},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Pod", Name: long, UID: "pod"},
			{APIVersion: long, Kind: Kind, Name: Name, UID: "volume", Controller: new(true)},
		},
	}
	heavy.Labels["long/"+long] = ""

	claim, err := slimClaim(&metav1.PartialObjectMetadata{ObjectMeta: heavy})
	require.NoError(t, err)
	v := &ToolVolume{ObjectMeta: heavy, Spec: ofClass("shared"), Status: Status{ClaimName: "entrypointer-1"}}
	object, err := v.untyped()
	require.NoError(t, err)
	volume, err := slimVolume(object)
	require.NoError(t, err)
	for _, slim := range []any{claim, volume} {
		text, err := json.Marshal(slim)
		require.NoError(t, err)
		require.Less(t, len(text), 1024)
	}

	require.True(t, metav1.IsControlledBy(claim.(metav1.Object), v))
	require.Equal(t, heavy.UID, claim.(metav1.Object).GetUID())
	read, err := fromUntyped(volume.(*unstructured.Unstructured))
	require.NoError(t, err)
	require.Equal(t, ToolVolume{ObjectMeta: metav1.ObjectMeta{
		Name: Name, Namespace: "tenant", UID: "volume", Generation: 1, ResourceVersion: "1", Labels: map[string]string{managedByLabel: manager},
	}, Spec: v.Spec, Status: v.Status}, *read)
	require.Len(t, object.GetAnnotations(), 1, "what others hold isn't changed")
}
