// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"crypto/tls"
	"errors"
	"slices"
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
	certresources "knative.dev/pkg/webhook/certificates/resources"
)

// newCertificate returns a webhook's certificate, and the CA that signed it.
func newCertificate(t *testing.T) (*tls.Certificate, []byte) {
	t.Helper()
	key, certificate, ca, err := certresources.CreateCerts(t.Context(), "entrypointer-webhook", "entrypointer-system", time.Now().Add(time.Hour))
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	return &pair, ca
}

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
		Webhooks:   []admissionregistrationv1.MutatingWebhook{{ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: caBundle}}},
	}))
}

// setValidating has the API server tell of the second.
func (k known) setValidating(t *testing.T, caBundle []byte, deleted *metav1.Time) {
	t.Helper()
	require.NoError(t, k.validating.Add(&admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "config", DeletionTimestamp: deleted},
		Webhooks:   []admissionregistrationv1.ValidatingWebhook{{ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: caBundle}}},
	}))
}

func TestAReplicaIsReadyWhenEachConfigurationTrustsItsCertificate(t *testing.T) {
	certificate, ca := newCertificate(t)
	_, former := newCertificate(t)
	for name, test := range map[string]struct {
		mutating, validating []byte
		wants                string
	}{
		"both do":                      {mutating: ca, validating: ca},
		"beside a former CA":           {mutating: slices.Concat(ca, former), validating: ca},
		"a new installation":           {wants: `waiting for the CA bundle of MutatingWebhookConfiguration "pods"`},
		"one is behind":                {mutating: ca, wants: `waiting for the CA bundle of ValidatingWebhookConfiguration "config"`},
		"the CA is that of yesterday":  {mutating: former, validating: ca, wants: "that verifies the webhook's certificate"},
		"the bundle isn't one of CAs":  {mutating: []byte("none"), validating: ca, wants: "waiting for the CA bundle"},
		"a former CA, on the other's ": {mutating: ca, validating: former, wants: `of ValidatingWebhookConfiguration "config" that verifies`},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKnown()
			k.setMutating(t, test.mutating, nil)
			k.setValidating(t, test.validating, nil)
			r := &Readiness{Configurations: k.Configurations, Certificate: func() (*tls.Certificate, error) { return certificate, nil }}
			if test.wants == "" {
				require.NoError(t, r.Check())
				return
			}
			require.ErrorContains(t, r.Check(), test.wants)
			k.setMutating(t, ca, nil)
			k.setValidating(t, ca, nil)
			require.NoError(t, r.Check(), "when the leader has set them")
		})
	}
}

func TestAReplicaIsNotReadyBeforeItHasACertificate(t *testing.T) {
	r := &Readiness{Configurations: newKnown().Configurations, Certificate: func() (*tls.Certificate, error) { return nil, errors.New("there is none") }}
	require.ErrorContains(t, r.Check(), "there is none")
}

func TestAReplicaIsNotReadyBeforeItKnowsTheConfigurations(t *testing.T) {
	certificate, _ := newCertificate(t)
	k := newKnown()
	k.synced = func() bool { return false }
	r := &Readiness{Configurations: k.Configurations, Certificate: func() (*tls.Certificate, error) { return certificate, nil }}
	require.ErrorIs(t, r.Check(), errNotSynced)
	require.False(t, k.Gone(0), "nor does it take them for deleted")
}

// The leader may renew the certificate when a replica hasn't heard of the new one.
func TestAReplicaThatWasReadyStaysReady(t *testing.T) {
	certificate, ca := newCertificate(t)
	_, later := newCertificate(t)
	k := newKnown()
	k.setMutating(t, ca, nil)
	k.setValidating(t, ca, nil)
	r := &Readiness{Configurations: k.Configurations, Certificate: func() (*tls.Certificate, error) { return certificate, nil }}
	require.NoError(t, r.Check())
	k.setMutating(t, later, nil)
	require.NoError(t, r.Check())
	k.setMutating(t, nil, nil)
	require.NoError(t, r.Check(), "somebody has applied the configuration anew")
}

// An operator may have deleted one, and means it. In an installation that begins, one
// may be about to be applied.
func TestAConfigurationThatIsMissingIsNotWaitedForUntilItIsThere(t *testing.T) {
	certificate, ca := newCertificate(t)
	k := newKnown()
	k.setValidating(t, ca, nil)
	r := &Readiness{Configurations: k.Configurations, Certificate: func() (*tls.Certificate, error) { return certificate, nil }}
	require.NoError(t, r.Check())
	k.setMutating(t, nil, nil)
	require.Error(t, r.Check())
	k.setMutating(t, ca, nil)
	require.NoError(t, r.Check())
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
