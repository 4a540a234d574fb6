// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certresources "knative.dev/pkg/webhook/certificates/resources"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/test/framework"
)

func deleteCertificates(ctx context.Context, e *environment) (healer, error) {
	err := e.cluster.Kube.CoreV1().Secrets(framework.SystemNamespace).Delete(ctx, config.ServedSecret, metav1.DeleteOptions{})
	if err != nil {
		return nil, fmt.Errorf("deleting the certificates: %w", err)
	}
	return nil, nil
}

// replaceCertificates writes certificates into the Secret that are valid from a time on until
// another one, both seen from now.
func replaceCertificates(from, until time.Duration) inject {
	return func(ctx context.Context, e *environment) (healer, error) {
		data, err := newCertificates(time.Now().Add(from), time.Now().Add(until))
		if err != nil {
			return nil, fmt.Errorf("making certificates: %w", err)
		}
		secrets := e.cluster.Kube.CoreV1().Secrets(framework.SystemNamespace)
		secret, err := secrets.Get(ctx, config.ServedSecret, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading the certificates: %w", err)
		}
		secret.Data = data
		if _, err := secrets.Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
			return nil, fmt.Errorf("replacing the certificates: %w", err)
		}
		return nil, nil
	}
}

// newCertificates are the data of the Secret: a CA, and the certificate of the webhook.
func newCertificates(from, until time.Time) (map[string][]byte, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	name := framework.WebhookService + "." + framework.SystemNamespace + ".svc"
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(from.UnixNano()), Subject: pkix.Name{CommonName: name + " of chaos"}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	authority, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(from.UnixNano() + 1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, key.Public(), caKey)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	inPEM := func(kind string, content []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
	}
	return map[string][]byte{
		certresources.ServerKey:  inPEM("PRIVATE KEY", secret),
		certresources.ServerCert: inPEM("CERTIFICATE", leaf),
		certresources.CACert:     inPEM("CERTIFICATE", authority),
	}, nil
}
