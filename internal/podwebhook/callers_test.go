// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"knative.dev/pkg/apis"
	logtesting "knative.dev/pkg/logging/testing"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/pkg/lookup"
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
			asked := false
			w, recorder := newWrapper(t, nil, func(context.Context, lookup.Query) (*lookup.Image, error) {
				asked = true
				return found(t.Context(), lookup.Query{})
			})
			current := *w.config.Load()
			current.Callers = x509.NewCertPool()
			current.Callers.AddCert(ours.certificate)
			w.config, w.lookups.config = fixed{&current}, &current
			ctx := apis.WithHTTPRequest(logtesting.TestContextWithLogger(t), &http.Request{URL: &url.URL{}, TLS: &tls.ConnectionState{PeerCertificates: test.shown}})
			response := w.admit(ctx, review(t, "testdata/review.json"))
			require.Equal(t, test.answered, response.Allowed)
			require.Equal(t, test.answered, asked)
			if !test.answered {
				require.Contains(t, response.Result.Message, "api-server-ca")
				require.Empty(t, recorder.Events)
			}
		})
	}
}

// fixed is a configuration that doesn't change.
type fixed struct{ *config.Config }

func (f fixed) Load() *config.Config { return f.Config }
