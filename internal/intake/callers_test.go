// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(raw)
	require.NoError(t, err)
	return authority{certificate, key}
}

func (a authority) sign(t *testing.T, usage x509.ExtKeyUsage, notAfter time.Time) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"}, NotAfter: notAfter, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, a.key.Public(), a.key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(raw)
	require.NoError(t, err)
	return certificate
}

func TestOnlyCallersWithACertificateOfTheAPIServersCAAreAnswered(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	soon := time.Now().Add(time.Hour)
	for name, test := range map[string]struct {
		shown    []*x509.Certificate
		answered bool
	}{
		"the API server":                 {[]*x509.Certificate{ours.sign(t, x509.ExtKeyUsageClientAuth, soon)}, true},
		"no certificate":                 {nil, false},
		"another client":                 {[]*x509.Certificate{others.sign(t, x509.ExtKeyUsageClientAuth, soon)}, false},
		"a server":                       {[]*x509.Certificate{ours.sign(t, x509.ExtKeyUsageServerAuth, soon)}, false},
		"an API server of long ago":      {[]*x509.Certificate{ours.sign(t, x509.ExtKeyUsageClientAuth, time.Now().Add(-time.Minute))}, false},
		"somebody else, with the others": {[]*x509.Certificate{others.sign(t, x509.ExtKeyUsageClientAuth, soon), ours.certificate}, false},
	} {
		t.Run(name, func(t *testing.T) {
			cas := x509.NewCertPool()
			cas.AddCert(ours.certificate)
			webhook := newServed(t, func(*http.Request) *x509.CertPool { return cas })
			request := post(t, reviewOf("tenant", `{}`))
			request.TLS = &tls.ConnectionState{PeerCertificates: test.shown}
			body := &countingReader{Reader: request.Body}
			request.Body = body
			answer := httptest.NewRecorder()
			webhook.ServeHTTP(answer, request)
			require.Equal(t, test.answered, answer.Code == http.StatusOK)
			require.Equal(t, test.answered, webhook.called.Load() == 1)
			if !test.answered {
				require.Equal(t, http.StatusForbidden, answer.Code)
				require.Contains(t, answer.Body.String(), "api-server-ca")
				require.Zero(t, body.read, "nothing of the body is read")
			}
		})
	}
}

// A countingReader counts the bytes that are read.
type countingReader struct {
	io.Reader

	read int
}

func (c *countingReader) Read(into []byte) (int, error) {
	n, err := c.Reader.Read(into)
	c.read += n
	return n, err
}

func (c *countingReader) Close() error { return nil }

func TestCertificatesThatTakeMuchMemoryEndTheHandshake(t *testing.T) {
	ours := newAuthority(t)
	leaf := ours.sign(t, x509.ExtKeyUsageClientAuth, time.Now().Add(time.Hour))
	used := *leaf
	used.UnknownExtKeyUsage = make([]asn1.ObjectIdentifier, maxNames+1)
	named := *leaf
	named.DNSNames = make([]string, maxNames+1)
	for name, test := range map[string]struct {
		shown    []*x509.Certificate
		accepted bool
	}{
		"none":                 {nil, true},
		"an API server's":      {[]*x509.Certificate{leaf, ours.certificate}, true},
		"a long chain":         {slices.Repeat([]*x509.Certificate{leaf}, maxCertificates/len(leaf.Raw)+1), false},
		"many uses":            {[]*x509.Certificate{&used}, false},
		"many names, the last": {[]*x509.Certificate{leaf, &named}, false},
	} {
		err := CheckCertificates(tls.ConnectionState{PeerCertificates: test.shown})
		require.Equal(t, test.accepted, err == nil, "%s: %v", name, err)
	}
}
