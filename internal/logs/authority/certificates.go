// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"time"
)

const (
	year         = 365 * 24 * time.Hour
	caLifetime   = 10 * year
	leafLifetime = 14 * 24 * time.Hour
	renewAfter   = leafLifetime / 2
	// clockSkew is how far the clock of a node may be behind.
	clockSkew = time.Hour
)

// newCA returns a certificate and its private key, in PEM.
func newCA(now time.Time) (certificate, key []byte, err error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "entrypointer log service CA"},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(caLifetime),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), nil
}

// sign issues a certificate for the service, with a new private key.
func (a *Authority) sign(now time.Time) (*x509.Certificate, crypto.Signer, error) {
	if now.After(a.certificate.NotAfter) {
		return nil, nil, fmt.Errorf("the CA was valid until %s: delete Secret %q for a new CA, which running pods won't trust", a.certificate.NotAfter.Format(time.RFC3339), Secret)
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "entrypointer log service"}, DNSNames: a.names,
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(leafLifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, signer.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	leaf, err := x509.ParseCertificate(raw)
	return leaf, signer, err
}
