// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"
	certresources "knative.dev/pkg/webhook/certificates/resources"
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
	k := &keeper{servedSecret{client: client, secrets: corelisters.NewSecretLister(known), key: key}, "entrypointer-webhook"}
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

// The clock that made them was ahead of that of the API server, which refuses them.
func TestCertificatesThatAreNotValidYetAreReplaced(t *testing.T) {
	tomorrow := secretOf(t, time.Now().Add(24*time.Hour))
	client, err := reconcile(t, true, tomorrow)
	require.NoError(t, err)
	secret, err := client.CoreV1().Secrets(key.Namespace).Get(t.Context(), key.Name, metav1.GetOptions{})
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(secret.Data[certresources.ServerCert], secret.Data[certresources.ServerKey])
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(secret.Data[certresources.CACert]))
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "entrypointer-webhook.entrypointer-system.svc"})
	require.NoError(t, err)

	client, err = reconcile(t, false, tomorrow)
	require.True(t, controller.IsSkipKey(err))
	require.Empty(t, client.Actions())
	client, err = reconcile(t, true, secretOf(t, time.Now().Add(-time.Minute)))
	require.NoError(t, err)
	require.Empty(t, client.Actions(), "they are valid")
}

// secretOf has a certificate that is valid from a time on.
func secretOf(t *testing.T, from time.Time) *corev1.Secret {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: from.Add(48 * time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: map[string][]byte{
		certresources.ServerCert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		certresources.ServerKey:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}),
		certresources.CACert:     pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
	}}
}

func TestOnlyTheLeaderCreatesTheSecret(t *testing.T) {
	client, err := reconcile(t, false)
	require.True(t, controller.IsSkipKey(err))
	require.Empty(t, client.Actions())
}
