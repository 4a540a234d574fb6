// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/entrypointer/entrypointer/internal/admission"
)

const own = "entrypointer-system"

var webhooks = admission.Webhooks{Mutating: []string{"pods", "namespaces"}, Validating: []string{"config"}}

// world has the webhooks of ours, one of somebody else's, and our namespace.
func world(t *testing.T, namespace *corev1.Namespace) (*remover, *fake.Clientset) {
	t.Helper()
	var objects []runtime.Object
	for _, name := range append(webhooks.Mutating, "theirs") {
		objects = append(objects, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for _, name := range append(webhooks.Validating, "theirs") {
		objects = append(objects, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	known := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	if namespace != nil {
		require.NoError(t, known.Add(namespace))
	}
	client := fake.NewClientset(objects...)
	return &remover{client: client, namespaces: corelisters.NewNamespaceLister(known), own: own, webhooks: webhooks}, client
}

func left(t *testing.T, client *fake.Clientset) (names []string) {
	t.Helper()
	mutating, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for i := range mutating.Items {
		names = append(names, mutating.Items[i].Name)
	}
	validating, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for i := range validating.Items {
		names = append(names, validating.Items[i].Name)
	}
	return names
}

func TestTheWebhooksGoWhenTheNamespaceGoes(t *testing.T) {
	there := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: own}}
	going := there.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{}
	for what, test := range map[string]struct {
		namespace *corev1.Namespace
		left      []string
	}{
		"it is there":         {there, []string{"namespaces", "pods", "theirs", "config", "theirs"}},
		"it is being deleted": {going, []string{"theirs", "theirs"}},
		"it is gone":          {nil, []string{"theirs", "theirs"}},
	} {
		t.Run(what, func(t *testing.T) {
			r, client := world(t, test.namespace)
			require.NoError(t, r.Reconcile(t.Context(), own))
			require.ElementsMatch(t, test.left, left(t, client))
			require.NoError(t, r.Reconcile(t.Context(), own), "another replica was faster")
		})
	}
}

func TestAFailedRemovalDoesNotPreventTheOthers(t *testing.T) {
	r, client := world(t, nil)
	client.PrependReactor("delete", "mutatingwebhookconfigurations", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.(clienttesting.DeleteAction).GetName() == "pods", nil, errors.New("no")
	})
	require.ErrorContains(t, r.Reconcile(t.Context(), own), `removing MutatingWebhookConfiguration "pods"`, "so that it is tried again")
	require.ElementsMatch(t, []string{"pods", "theirs", "theirs"}, left(t, client))
}
