// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"
)

var key = types.NamespacedName{Namespace: "entrypointer-system", Name: "entrypointer-webhook-certs"}

func reconcile(t *testing.T, leader bool, there ...*corev1.Secret) (*fake.Clientset, error) {
	t.Helper()
	client := fake.NewClientset()
	known := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, secret := range there {
		require.NoError(t, client.Tracker().Add(secret))
		require.NoError(t, known.Add(secret))
	}
	k := &keeper{servedSecret{client: client, secrets: corelisters.NewSecretLister(known), key: key}}
	if leader {
		require.NoError(t, k.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}))
	}
	return client, k.Reconcile(t.Context(), key.String())
}

func TestADeletedSecretIsCreatedAgain(t *testing.T) {
	client, err := reconcile(t, true)
	require.NoError(t, err)
	secret, err := client.CoreV1().Secrets(key.Namespace).Get(t.Context(), key.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Empty(t, secret.Data, "knative.dev/pkg's controller fills it")
	require.Equal(t, "entrypointer", secret.Labels["app.kubernetes.io/part-of"])
}

func TestASecretThatIsThereIsLeftAlone(t *testing.T) {
	client, err := reconcile(t, true, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
	require.NoError(t, err)
	require.Empty(t, client.Actions())
}

func TestOnlyTheLeaderCreatesTheSecret(t *testing.T) {
	client, err := reconcile(t, false)
	require.True(t, controller.IsSkipKey(err))
	require.Empty(t, client.Actions())
}
