// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	admissionlisters "k8s.io/client-go/listers/admissionregistration/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	logtesting "knative.dev/pkg/logging/testing"
	"knative.dev/pkg/reconciler"
	"knative.dev/pkg/system"
	_ "knative.dev/pkg/system/testing"
)

func TestAPanicIsAnAnswer(t *testing.T) {
	s := &server{logger: logtesting.TestLogger(t), admit: func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		panic("unforeseen")
	}}
	response := s.Admit(t.Context(), &admissionv1.AdmissionRequest{})
	require.False(t, response.Allowed)
	require.Contains(t, response.Result.Message, "unforeseen")
	require.Contains(t, response.Result.Message, "please report it")
}

func TestAPanicInACheckCostsTheWarningsOnly(t *testing.T) {
	warn := Warn(func(_ context.Context, request *admissionv1.AdmissionRequest) []string {
		if request.Name == "a" {
			panic("unforeseen")
		}
		return []string{"a warning"}
	})
	ctx := logging.WithLogger(t.Context(), zap.NewNop().Sugar())
	require.Equal(t, &admissionv1.AdmissionResponse{Allowed: true}, warn.admit(ctx, &admissionv1.AdmissionRequest{Name: "a"}))
	require.Equal(t, &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{"a warning"}}, warn.admit(ctx, &admissionv1.AdmissionRequest{Name: "b"}))
}

const name = "pods.entrypointer.dev"

func newCABundle(t *testing.T, leader bool, data map[string][]byte) (*caBundle, *fake.Clientset) {
	t.Helper()
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks:   []admissionregistrationv1.MutatingWebhook{{Name: "one", ClientConfig: ours(nil)}, {Name: "two", ClientConfig: ours(nil)}},
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system.Namespace(), UID: "uid"}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "certs", Namespace: system.Namespace()}, Data: data}
	client := fake.NewClientset(configuration, namespace)
	c := &caBundle{
		client: client, key: types.NamespacedName{Name: name}, secretName: "certs",
		secrets: corelisters.NewSecretLister(indexer(t, secret)),
		read:    mutating(admissionlisters.NewMutatingWebhookConfigurationLister(indexer(t, configuration)), client),
		writes:  newWrites(),
	}
	if leader {
		require.NoError(t, c.Promote(reconciler.UniversalBucket(), nil))
	}
	return c, client
}

func indexer(t *testing.T, object runtime.Object) cache.Indexer {
	t.Helper()
	i := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	require.NoError(t, i.Add(object))
	return i
}

func TestTheLeaderGivesEveryWebhookTheCA(t *testing.T) {
	c, client := newCABundle(t, true, map[string][]byte{"ca-cert.pem": []byte("ca")})
	require.NoError(t, c.Reconcile(t.Context(), name))
	got, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	for _, webhook := range got.Webhooks {
		require.Equal(t, "ca", string(webhook.ClientConfig.CABundle))
	}
	require.Equal(t, types.UID("uid"), got.OwnerReferences[0].UID, "it goes when the namespace goes")
}

func TestOnlyTheLeaderWrites(t *testing.T) {
	c, client := newCABundle(t, false, map[string][]byte{"ca-cert.pem": []byte("ca")})
	require.True(t, controller.IsSkipKey(c.Reconcile(t.Context(), name)))
	require.Empty(t, client.Actions())
}

func TestAnEmptySecretIsWaitedFor(t *testing.T) {
	c, client := newCABundle(t, true, nil)
	require.NoError(t, c.Reconcile(t.Context(), name))
	require.Empty(t, client.Actions())
}

func TestACurrentConfigurationIsLeftAlone(t *testing.T) {
	owner := metav1.OwnerReference{UID: "uid"}
	configuration := writable{meta: &metav1.ObjectMeta{}, clients: []*admissionregistrationv1.WebhookClientConfig{{}}}
	require.True(t, configuration.trust([]byte("ca"), owner))
	require.False(t, configuration.trust([]byte("ca"), owner))
	require.True(t, configuration.trust([]byte("renewed"), owner))
}

// The informer's object, which others read, stays as it is.
func TestTheConfigurationOfAWarnerGetsTheCAToo(t *testing.T) {
	c, _ := newCABundle(t, true, map[string][]byte{"ca-cert.pem": []byte("ca")})
	cached := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "one", ClientConfig: ours(nil)}},
	}
	client := fake.NewClientset(cached.DeepCopy())
	c.read = validating(admissionlisters.NewValidatingWebhookConfigurationLister(indexer(t, cached)), client)
	require.NoError(t, c.Reconcile(t.Context(), name))
	got, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "ca", string(got.Webhooks[0].ClientConfig.CABundle))
	require.Equal(t, types.UID("uid"), got.OwnerReferences[0].UID)
	require.Empty(t, cached.OwnerReferences)
	require.Empty(t, cached.Webhooks[0].ClientConfig.CABundle)
	c.key.Name = "another"
	require.ErrorContains(t, c.Reconcile(t.Context(), name), `reading ValidatingWebhookConfiguration "another"`)
}

// As cert-manager's CA injector does, if somebody has annotated the configuration for it.
func TestSomebodyWhoSetsAnotherCAAgainAndAgainIsContradictedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client := newCABundle(t, true, map[string][]byte{"ca-cert.pem": []byte("ca")})
		core, logged := observer.New(zap.WarnLevel)
		ctx := logging.WithLogger(t.Context(), zap.New(core).Sugar())
		theirs := &admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name, ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "injector", Time: &metav1.Time{Time: time.Now().Add(-time.Second)}},
				{Manager: "cert-manager-cainjector", Time: &metav1.Time{Time: time.Now()}},
				{Manager: "kubectl", Time: &metav1.Time{Time: time.Now().Add(-time.Hour)}},
			}},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "one", ClientConfig: ours([]byte("theirs"))}},
		}
		c.read = mutating(admissionlisters.NewMutatingWebhookConfigurationLister(indexer(t, theirs)), client)
		updates := func() (n int) {
			for _, action := range client.Actions() {
				if action.GetVerb() == "update" {
					n++
				}
			}
			return n
		}
		for range 5 {
			require.NoError(t, c.Reconcile(ctx, name))
		}
		require.Equal(t, 5, updates(), "who applies it anew is contradicted at once")
		for range 1000 {
			_ = c.Reconcile(ctx, name)
		}
		require.Equal(t, writesAtOnce, updates())
		again, after := controller.IsRequeueKey(c.Reconcile(ctx, name))
		require.True(t, again)
		require.Equal(t, writePause, after)
		require.Contains(t, logged.All()[0].Message, `again and again, last "cert-manager-cainjector"`)
		for range 60 {
			time.Sleep(writePause)
			_ = c.Reconcile(ctx, name)
		}
		require.Equal(t, writesAtOnce+60, updates())
		time.Sleep(time.Hour)
		for range 5 {
			require.NoError(t, c.Reconcile(ctx, name), "they have ended that: the next time is at once")
		}
	})
}
