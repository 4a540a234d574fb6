// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"maps"
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
)

const server = "entrypointer-webhook.entrypointer-system.svc"

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// issue returns a certificate that an authority signs, or that signs itself.
func issue(t *testing.T, by *authority, name string, end time.Time) (issued authority) {
	t.Helper()
	var err error
	issued.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: end, DNSNames: []string{name},
		IsCA: name == "", BasicConstraintsValid: true,
	}
	if by == nil {
		by = &authority{template, issued.key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.certificate, &issued.key.PublicKey, by.key)
	require.NoError(t, err)
	issued.certificate, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return issued
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

func (a *authority) keyPEM(t *testing.T) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// copied reconciles a cluster whose Secret "mine" has some data.
func copied(t *testing.T, leader bool, mine map[string][]byte, served map[string][]byte) (*fake.Clientset, error) {
	t.Helper()
	client := fake.NewClientset()
	known := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for name, data := range map[string]map[string][]byte{"mine": mine, key.Name: served} {
		if data == nil {
			continue
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name}, Data: data}
		require.NoError(t, client.Tracker().Add(secret))
		require.NoError(t, known.Add(secret))
	}
	g := &given{servedSecret: servedSecret{client: client, secrets: corelisters.NewSecretLister(known), key: key}, from: "mine", server: server}
	if leader {
		require.NoError(t, g.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}))
	}
	return client, g.Reconcile(t.Context(), key.String())
}

func TestAGivenCertificateIsServed(t *testing.T) {
	nextYear := time.Now().AddDate(1, 0, 0)
	root := issue(t, nil, "", nextYear)
	between := issue(t, &root, "", nextYear)
	leaf := issue(t, &between, server, nextYear)
	mine := map[string][]byte{"tls.crt": append(leaf.pem(), between.pem()...), "tls.key": leaf.keyPEM(t), "ca.crt": root.pem()}
	want := map[string][]byte{"server-cert.pem": mine["tls.crt"], "server-key.pem": mine["tls.key"], "ca-cert.pem": mine["ca.crt"]}
	for name, served := range map[string]map[string][]byte{
		"before the first one":     {},
		"after a deletion":         nil,
		"in the place of a former": {"server-cert.pem": []byte("former"), "server-key.pem": []byte("former"), "ca-cert.pem": []byte("former")},
	} {
		client, err := copied(t, true, mine, served)
		require.NoError(t, err, name)
		secret, err := client.CoreV1().Secrets(key.Namespace).Get(t.Context(), key.Name, metav1.GetOptions{})
		require.NoError(t, err, name)
		require.Equal(t, want, secret.Data, name)
	}
	client, err := copied(t, true, mine, want)
	require.NoError(t, err)
	require.Empty(t, client.Actions(), "it is served already")
	client, err = copied(t, false, mine, nil)
	require.True(t, controller.IsSkipKey(err))
	require.Empty(t, client.Actions())
}

func TestACertificateThatAPIServersWouldNotTrustIsNotServed(t *testing.T) {
	nextYear := time.Now().AddDate(1, 0, 0)
	root, other := issue(t, nil, "", nextYear), issue(t, nil, "", nextYear)
	leaf, foreign, late := issue(t, &root, server, nextYear), issue(t, &root, "elsewhere.svc", nextYear), issue(t, &root, server, time.Now().Add(-time.Minute))
	good := map[string][]byte{"tls.crt": leaf.pem(), "tls.key": leaf.keyPEM(t), "ca.crt": root.pem()}
	for says, change := range map[string]map[string][]byte{
		"keys tls.crt and tls.key":        {"tls.key": other.keyPEM(t)},
		"failed to find any PEM data":     {"tls.crt": nil},
		"key ca.crt has no certificate":   {"ca.crt": nil},
		"signed by unknown authority":     {"ca.crt": other.pem()},
		"is valid for elsewhere.svc, not": {"tls.crt": foreign.pem(), "tls.key": foreign.keyPEM(t)},
		"certificate has expired":         {"tls.crt": late.pem(), "tls.key": late.keyPEM(t)},
	} {
		mine := maps.Clone(good)
		maps.Copy(mine, change)
		client, err := copied(t, true, mine, map[string][]byte{})
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, `in Secret "mine"`)
		require.Empty(t, client.Actions(), says)
	}
	_, err := copied(t, true, nil, map[string][]byte{})
	require.ErrorContains(t, err, "create Secret entrypointer-system/mine, or start the injector without -certificate-secret")
}
