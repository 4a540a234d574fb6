// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	vwcinformer "knative.dev/pkg/client/injection/kube/informers/admissionregistration/v1/validatingwebhookconfiguration"
	_ "knative.dev/pkg/client/injection/kube/informers/admissionregistration/v1/validatingwebhookconfiguration/fake"
	secretinformer "knative.dev/pkg/injection/clients/namespacedkube/informers/core/v1/secret"
	"knative.dev/pkg/reconciler"
	rtesting "knative.dev/pkg/reconciler/testing"
	"knative.dev/pkg/system"
	"knative.dev/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/internal/config"
)

// A replica is ready when each entry that calls the injector trusts its certificate, so each
// gets the CA, whatever its name. The others are somebody else's, whatever their names.
func TestEachEntryOfTheConfigurationsWebhookThatCallsTheInjectorGetsTheCA(t *testing.T) {
	ours := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: system.Namespace(), Name: config.WebhookService, Path: new(configPath)}}
	theirs := admissionregistrationv1.WebhookClientConfig{URL: new("https://policies.example.test")}
	rules := []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update}}}
	for what, webhooks := range map[string][]admissionregistrationv1.ValidatingWebhook{
		"ours alone":            {{Name: configWebhook, ClientConfig: ours, Rules: rules}},
		"one of theirs":         {{Name: "theirs", ClientConfig: theirs}, {Name: configWebhook, ClientConfig: ours, Rules: rules}},
		"a copy of ours":        {{Name: configWebhook, ClientConfig: ours, Rules: rules}, {Name: "copy", ClientConfig: ours}},
		"theirs, by our name":   {{Name: configWebhook, ClientConfig: theirs}, {Name: "renamed", ClientConfig: ours}},
		"theirs in ours' place": {{Name: configWebhook, ClientConfig: theirs}},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, _ := rtesting.SetupFakeContext(t)
			ctx = webhook.WithOptions(ctx, webhook.Options{ServiceName: config.WebhookService, SecretName: config.ServedSecret})
			client := kubeclient.Get(ctx)
			configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configWebhook}, Webhooks: webhooks}
			_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, configuration, metav1.CreateOptions{})
			require.NoError(t, err)
			_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system.Namespace(), UID: "uid"}}, metav1.CreateOptions{})
			require.NoError(t, err)
			require.NoError(t, vwcinformer.Get(ctx).Informer().GetIndexer().Add(configuration))
			require.NoError(t, secretinformer.Get(ctx).Informer().GetIndexer().Add(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: system.Namespace(), Name: config.ServedSecret}, Data: map[string][]byte{"ca-cert.pem": []byte("ca")},
			}))
			controller := newConfigValidation(ctx, nil)
			require.NoError(t, controller.Reconciler.(reconciler.LeaderAware).Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}))
			require.NoError(t, controller.Reconciler.Reconcile(ctx, configWebhook))
			got, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, configWebhook, metav1.GetOptions{})
			require.NoError(t, err)
			for i, w := range got.Webhooks {
				want := *webhooks[i].ClientConfig.DeepCopy()
				if want.Service != nil {
					want.CABundle = []byte("ca")
				}
				require.Equal(t, want, w.ClientConfig, w.Name)
				require.Equal(t, webhooks[i].Rules, w.Rules, "an operator's own stay")
			}
		})
	}
}

func TestOnlyAConfigurationThatTheInjectorReadsIsAdmitted(t *testing.T) {
	text, err := os.ReadFile("../../config/webhook/300-config-entrypointer.yaml")
	require.NoError(t, err)
	for what, test := range map[string]struct {
		change func(*corev1.ConfigMap)
		wants  string // "" if it is admitted
	}{
		"as it ships":                         {func(*corev1.ConfigMap) {}, ""},
		"a key":                               {func(c *corev1.ConfigMap) { c.Data["lookup-timeout"] = "1s" }, ""},
		"an unknown key":                      {func(c *corev1.ConfigMap) { c.Data["lookup-timout"] = "1s" }, "lookup-timeout"},
		"another value in the example":        {func(c *corev1.ConfigMap) { c.Data["_example"] = "lookup-timeout: 1s" }, `key "_example"`},
		"no example":                          {func(c *corev1.ConfigMap) { delete(c.Data, "_example") }, ""},
		"an example without a checksum":       {func(c *corev1.ConfigMap) { c.Data["_example"], c.Annotations = "x", nil }, ""},
		"another ConfigMap, with another key": {func(c *corev1.ConfigMap) { c.Name, c.Data["unknown"] = "other", "x" }, ""},
	} {
		t.Run(what, func(t *testing.T) {
			var given corev1.ConfigMap
			require.NoError(t, yaml.Unmarshal(text, &given))
			if given.Data == nil {
				given.Data = map[string]string{}
			}
			test.change(&given)
			raw, err := json.Marshal(given)
			require.NoError(t, err)
			response := validateConfig(t.Context(), &admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: raw}})
			require.Equal(t, test.wants == "", response.Allowed, "%v", response.Result)
			if !response.Allowed {
				require.Contains(t, response.Result.Message, test.wants)
				require.EqualValues(t, 400, response.Result.Code)
			}
		})
	}
	response := validateConfig(t.Context(), &admissionv1.AdmissionRequest{})
	require.False(t, response.Allowed, "a request to delete it never comes")
}
