// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	admissionlisters "k8s.io/client-go/listers/admissionregistration/v1"
	"k8s.io/client-go/tools/cache"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	_ "knative.dev/pkg/client/injection/kube/client/fake"
	_ "knative.dev/pkg/client/injection/kube/informers/admissionregistration/v1/mutatingwebhookconfiguration/fake"
	_ "knative.dev/pkg/client/injection/kube/informers/admissionregistration/v1/validatingwebhookconfiguration/fake"
	rtesting "knative.dev/pkg/reconciler/testing"
)

// known are configurations that informers have seen, one of each kind.
type known struct {
	*Configurations

	mutating, validating cache.Indexer
}

func newKnown() known {
	k := known{mutating: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), validating: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)}
	k.Configurations = &Configurations{
		names:      Webhooks{Mutating: []string{"pods"}, Validating: []string{"config"}},
		mutating:   admissionlisters.NewMutatingWebhookConfigurationLister(k.mutating),
		validating: admissionlisters.NewValidatingWebhookConfigurationLister(k.validating),
		synced:     func() bool { return true },
	}
	return k
}

// setMutating has the API server tell of the first configuration.
func (k known) setMutating(t *testing.T, caBundle []byte, deleted *metav1.Time) {
	t.Helper()
	require.NoError(t, k.mutating.Add(&admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "pods", DeletionTimestamp: deleted},
		Webhooks:   []admissionregistrationv1.MutatingWebhook{{ClientConfig: ours(caBundle)}},
	}))
}

// setValidating has the API server tell of the second.
func (k known) setValidating(t *testing.T, caBundle []byte, deleted *metav1.Time) {
	t.Helper()
	require.NoError(t, k.validating.Add(&admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "config", DeletionTimestamp: deleted},
		Webhooks:   []admissionregistrationv1.ValidatingWebhook{{ClientConfig: ours(caBundle)}},
	}))
}

func TestConfigurationsAreGoneWhenEachIsDeletedOrBeingDeleted(t *testing.T) {
	deleted := &metav1.Time{}
	k := newKnown()
	require.True(t, k.Gone(0), "none is there")
	k.setMutating(t, nil, deleted)
	require.True(t, k.Gone(0), "one is being deleted")
	k.setValidating(t, nil, nil)
	require.False(t, k.Gone(0), "the other isn't")
	k.setValidating(t, nil, deleted)
	require.True(t, k.Gone(0), "both are")
}

func TestConfigurationsAreGoneOnlyAfterTheTimeThatOthersTakeToHearOfIt(t *testing.T) {
	ctx, cancel, informers := rtesting.SetupFakeContextWithCancel(t)
	api := kubeclient.Get(ctx).AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := api.Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "pods"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	configurations, err := NewConfigurations(ctx, Webhooks{Mutating: []string{"pods"}, Validating: []string{"config"}})
	require.NoError(t, err)
	wait, err := rtesting.RunAndSyncInformers(ctx, informers...)
	require.NoError(t, err)
	t.Cleanup(func() { cancel(); wait() })
	require.False(t, configurations.Gone(0))
	require.NoError(t, api.Delete(ctx, "pods", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool { return configurations.Gone(0) }, time.Minute, time.Millisecond)
	require.False(t, configurations.Gone(time.Hour))
}

func TestAWebhookThatHasNoCABundleCanNotBeCalled(t *testing.T) {
	k := newKnown()
	lister := admissionlisters.NewMutatingWebhookConfigurationLister(k.mutating)
	require.True(t, HasCABundle(lister, "pods"), "nobody calls what isn't there")
	k.setMutating(t, nil, nil)
	require.False(t, HasCABundle(lister, "pods"))
	k.setMutating(t, []byte("ca"), nil)
	require.True(t, HasCABundle(lister, "pods"))
}
