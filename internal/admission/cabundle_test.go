// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	admissionlisters "k8s.io/client-go/listers/admissionregistration/v1"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/system"
	certresources "knative.dev/pkg/webhook/certificates/resources"
)

// ours calls the injector.
func ours(caBundle []byte) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Namespace: system.Namespace(), Name: "entrypointer-webhook"}, CABundle: caBundle,
	}
}

// newCA is one of those that knative.dev/pkg makes for a webhook.
func newCA(t *testing.T, until time.Time) []byte {
	t.Helper()
	_, _, ca, err := certresources.CreateCerts(t.Context(), "entrypointer-webhook", "entrypointer-system", until)
	require.NoError(t, err)
	return ca
}

func TestFormerCAsStayInTheBundleWhileTheirCertificatesMayBeServed(t *testing.T) {
	valid := time.Now().Add(time.Hour)
	first, second, third, fourth, fifth := newCA(t, valid), newCA(t, valid), newCA(t, valid), newCA(t, valid), newCA(t, valid)
	expired := newCA(t, time.Now().Add(-time.Hour))
	both := slices.Concat(second, first)
	for what, test := range map[string]struct{ ca, current, want []byte }{
		"there is none yet":  {first, nil, first},
		"as it is":           {first, first, first},
		"a new one":          {second, first, both},
		"as it is, with two": {second, both, both},
		"yet another, soon":  {third, both, slices.Concat(third, second, first)},
		"many, soon":         {fifth, slices.Concat(fourth, third, second, first), slices.Concat(fifth, fourth, third, second)},
		"after a faulty one": {third, slices.Concat(expired, second), slices.Concat(third, second)},
		"what is no CA":      {second, []byte("none"), second},
		"one that expired":   {second, expired, second},
	} {
		require.Equal(t, string(test.want), string(bundleOf(test.ca, test.current)), what)
	}
}

// A Secret that somebody writes by hand may have a ca.crt without a newline at its end. Behind
// it, the header of the next certificate would hide both.
func TestACAWithoutANewlineAtItsEndIsReadBesideTheFormerOnes(t *testing.T) {
	valid := time.Now().Add(time.Hour)
	first, second := newCA(t, valid), newCA(t, valid)
	bundle := bundleOf(bytes.TrimSpace(second), bytes.TrimSpace(first))
	require.Equal(t, string(slices.Concat(second, first)), string(bundle))
	require.Equal(t, string(bundle), string(bundleOf(bytes.TrimSpace(second), bundle)), "it isn't written again and again")
	alone := bytes.TrimSpace(second)
	require.Equal(t, string(alone), string(bundleOf(alone, alone)), "nothing is hidden")
}

// Its CA may be that of somebody who writes it again and again, and an entry with a URL may
// need none.
func TestTheCAOfSomebodyElsesEntryIsLeftAlone(t *testing.T) {
	ourService := ours(nil)
	for what, foreign := range map[string]admissionregistrationv1.WebhookClientConfig{
		"a URL":                     {URL: new("https://policies.example.test")},
		"a URL and a CA":            {URL: new("https://policies.example.test"), CABundle: newCA(t, time.Now().Add(time.Hour))},
		"a service of their own":    {Service: &admissionregistrationv1.ServiceReference{Namespace: "policies", Name: "webhook"}},
		"another one of ours":       {Service: &admissionregistrationv1.ServiceReference{Namespace: system.Namespace(), Name: "logs"}},
		"a service that has our CA": {Service: &admissionregistrationv1.ServiceReference{Namespace: "policies", Name: "webhook"}, CABundle: []byte("ca")},
	} {
		t.Run(what, func(t *testing.T) {
			configuration := &admissionregistrationv1.MutatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: "pods"},
				Webhooks:   []admissionregistrationv1.MutatingWebhook{{Name: "foreign", ClientConfig: foreign}, {Name: "ours", ClientConfig: ourService}},
			}
			client := fake.NewClientset(configuration)
			indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
			require.NoError(t, indexer.Add(configuration))
			lister := admissionlisters.NewMutatingWebhookConfigurationLister(indexer)
			require.False(t, HasCABundle(lister, "pods"), "ours has none yet")

			read, err := mutating(lister, client)("pods")
			require.NoError(t, err)
			ca := newCA(t, time.Now().Add(time.Hour))
			require.True(t, read.trust(ca, metav1.OwnerReference{UID: "uid"}))
			require.NoError(t, read.update(t.Context()))

			got, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "pods", metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, foreign, got.Webhooks[0].ClientConfig)
			require.Equal(t, string(ca), string(got.Webhooks[1].ClientConfig.CABundle))
			require.NoError(t, indexer.Update(got))
			require.True(t, HasCABundle(lister, "pods"), "no injector waits for the CA of somebody else")
			found := newConfiguration("MutatingWebhookConfiguration", got.ObjectMeta, got.Webhooks, mutatingClient)
			require.Equal(t, [][]byte{ca}, found.caBundles, "no replica waits for the CA of somebody else")
		})
	}
}
