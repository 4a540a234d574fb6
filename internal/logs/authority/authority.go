// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package authority is the certificate authority (CA) of the log service, and issues the
// service's certificate.
//
// Pods run for months, and know only the digest of the CA as of their creation. So the CA
// is valid for ten years, and kept in a Secret. The certificates that it signs are valid
// for two weeks, and stay in the memory of a replica.
package authority

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

// Secret is the name of the Secret with the CA.
const Secret = "log-service-ca"

// An Authority is the CA, and the current certificate of the service.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	names       []string
	now         func() time.Time

	mu      sync.Mutex
	serving *tls.Certificate
	renewAt time.Time
}

// Open reads the CA from its Secret. The first replica creates it. Certificates are for
// the DNS names.
func Open(ctx context.Context, secrets corev1client.SecretInterface, names ...string) (*Authority, error) {
	return open(ctx, secrets, time.Now, names)
}

func open(ctx context.Context, secrets corev1client.SecretInterface, now func() time.Time, names []string) (*Authority, error) {
	secret, err := secrets.Get(ctx, Secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		secret, err = create(ctx, secrets, now())
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the CA of the log service in Secret %q: %w", Secret, err)
	}
	certificate, key, err := parse(secret, now())
	if err != nil {
		return nil, fmt.Errorf("reading the CA of the log service from Secret %q: %w; restore the Secret, or delete it for a new CA, which running pods won't trust", Secret, err)
	}
	return &Authority{certificate: certificate, key: key, names: names, now: now}, nil
}

// create creates the CA, or returns that of a faster replica.
func create(ctx context.Context, secrets corev1client.SecretInterface, now time.Time) (*corev1.Secret, error) {
	certificate, key, err := newCA(now)
	if err != nil {
		return nil, fmt.Errorf("creating a new CA: %w", err)
	}
	secret, err := secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: Secret, Labels: map[string]string{"app.kubernetes.io/part-of": "entrypointer"}},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return secrets.Get(ctx, Secret, metav1.GetOptions{})
	}
	return secret, err
}

func parse(secret *corev1.Secret, now time.Time) (*x509.Certificate, crypto.Signer, error) {
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, nil, err
	}
	key, signs := pair.PrivateKey.(crypto.Signer)
	certificate := pair.Leaf
	switch {
	case !signs:
		return nil, nil, fmt.Errorf("its key is a %T, which can't sign", pair.PrivateKey)
	case !certificate.IsCA || certificate.KeyUsage&x509.KeyUsageCertSign == 0:
		return nil, nil, errors.New("its certificate isn't a CA's")
	case now.Before(certificate.NotBefore) || now.After(certificate.NotAfter):
		return nil, nil, fmt.Errorf("it is valid from %s to %s", certificate.NotBefore.Format(time.RFC3339), certificate.NotAfter.Format(time.RFC3339))
	}
	return certificate, key, nil
}

// Pin returns the digest by which clients know the CA.
func (a *Authority) Pin() string { return endpoint.Pin(a.certificate) }

// PEM returns the certificate of the CA, for clients that need all of it.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// GetCertificate is the one of a tls.Config. The chain includes the CA, because clients
// know only its digest.
func (a *Authority) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if a.serving != nil && now.Before(a.renewAt) {
		return a.serving, nil
	}
	leaf, key, err := a.sign(now)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate of the log service: %w", err)
	}
	a.serving = &tls.Certificate{Certificate: [][]byte{leaf.Raw, a.certificate.Raw}, PrivateKey: key, Leaf: leaf}
	a.renewAt = now.Add(renewAfter)
	return a.serving, nil
}
