// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package frontproxy

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/synced"
)

// A ca signs certificates.
type ca struct {
	t           *testing.T
	certificate *x509.Certificate
	key         crypto.Signer
}

func newCA(t *testing.T) *ca {
	t.Helper()
	c := &ca{t: t}
	certificate := c.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	c.certificate, c.key = certificate.Leaf, certificate.PrivateKey.(crypto.Signer)
	return c
}

// sign returns a certificate for TLS.
func (c *ca) sign(template *x509.Certificate) tls.Certificate {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(c.t, err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := c.certificate, c.key
	if parent == nil {
		parent, signer = template, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	require.NoError(c.t, err)
	leaf, err := x509.ParseCertificate(raw)
	require.NoError(c.t, err)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key, Leaf: leaf}
}

// client returns a client certificate with a common name, as the API server has one.
func (c *ca) client(name string) tls.Certificate {
	return c.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// data returns the data of the ConfigMap.
func (c *ca) data() map[string]string {
	return map[string]string{
		"requestheader-client-ca-file":       string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.certificate.Raw})),
		"requestheader-allowed-names":        `["front-proxy-client"]`,
		"requestheader-username-headers":     `["X-Remote-User"]`,
		"requestheader-uid-headers":          `["X-Remote-Uid"]`,
		"requestheader-group-headers":        `["X-Remote-Group"]`,
		"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	}
}

func configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: ConfigMap}, Data: data}
}

// proxyWith returns a Proxy that has read a ConfigMap.
func proxyWith(t *testing.T, data map[string]string) *Proxy {
	t.Helper()
	p := New()
	require.NoError(t, p.read(t.Context(), fake.NewClientset(configMap(data)).CoreV1().ConfigMaps(metav1.NamespaceSystem)))
	return p
}

// asks returns what a Proxy makes of a request over TLS. The certificate may be nil.
func asks(t *testing.T, p *Proxy, certificate *tls.Certificate, headers http.Header) (user api.User, err error) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { user, err = p.User(r) }))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	client := server.Client()
	if certificate != nil {
		client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{*certificate}
	}
	request, failed := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	require.NoError(t, failed)
	request.Header = headers
	response, failed := client.Do(request)
	require.NoError(t, failed)
	require.NoError(t, response.Body.Close())
	return user, err
}

func TestTheAPIServerNamesTheUser(t *testing.T) {
	t.Parallel()
	authority := newCA(t)
	certificate := authority.client("front-proxy-client")
	user, err := asks(t, proxyWith(t, authority.data()), &certificate, http.Header{
		"X-Remote-User": {"jane"}, "X-Remote-Uid": {"1"}, "X-Remote-Group": {"devs", "system:authenticated"},
		"X-Remote-Extra-Acme.com%2fproject": {"some", "more"}, "X-Remote-Extra-Scopes": {"s"}, "Authorization": {"Bearer x"},
	})
	require.NoError(t, err)
	require.Equal(t, api.User{
		Name: "jane", UID: "1", Groups: []string{"devs", "system:authenticated"},
		Extra: map[string][]string{"acme.com/project": {"some", "more"}, "scopes": {"s"}},
	}, user)
}

func TestHeadersOfOtherClientsDoNotCount(t *testing.T) {
	t.Parallel()
	authority, other := newCA(t), newCA(t)
	data := authority.data()
	admin := http.Header{"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}}
	for name, test := range map[string]struct {
		certificate *tls.Certificate
		headers     http.Header
	}{
		"no certificate":           {nil, admin},
		"another CA's":             {new(other.client("front-proxy-client")), admin},
		"another name":             {new(authority.client("admin")), admin},
		"no name":                  {new(authority.client("")), admin},
		"a server's":               {new(authority.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "front-proxy-client"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})), admin},
		"one that has expired":     {new(authority.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "front-proxy-client"}, NotAfter: time.Now().Add(-time.Minute), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})), admin},
		"the CA's, sent along":     {new(along(other.client("front-proxy-client"), authority)), admin},
		"the API server's, nobody": {new(authority.client("front-proxy-client")), http.Header{"X-Remote-Group": {"system:masters"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			user, err := asks(t, proxyWith(t, data), test.certificate, test.headers.Clone())
			require.ErrorIs(t, err, api.ErrNotProxy)
			require.Empty(t, user.Name)
			require.Empty(t, user.Groups)
		})
	}
	_, err := New().User(httptest.NewRequest(http.MethodGet, "/", nil))
	require.ErrorIs(t, err, api.ErrNotProxy, "no TLS")
}

// along adds the public certificate of another CA to a chain.
func along(certificate tls.Certificate, authority *ca) tls.Certificate {
	certificate.Certificate = append(certificate.Certificate, authority.certificate.Raw)
	return certificate
}

func TestNobodyIsTrustedBeforeTheConfigMapIsRead(t *testing.T) {
	t.Parallel()
	certificate := newCA(t).client("front-proxy-client")
	_, err := asks(t, New(), &certificate, http.Header{"X-Remote-User": {"jane"}})
	require.ErrorIs(t, err, errNotReadYet)
	require.NotErrorIs(t, err, api.ErrNotProxy, "the client may retry")
}

func TestWithoutAllowedNamesAllCertificatesOfTheCACount(t *testing.T) {
	t.Parallel()
	authority := newCA(t)
	data := authority.data()
	data["requestheader-allowed-names"] = "[]"
	certificate := authority.client("any")
	user, err := asks(t, proxyWith(t, data), &certificate, http.Header{"X-Remote-User": {"jane"}})
	require.NoError(t, err)
	require.Equal(t, "jane", user.Name)
}

func TestAnIncompleteConfigMapIsReported(t *testing.T) {
	t.Parallel()
	for key, test := range map[string]struct{ value, says string }{
		"requestheader-client-ca-file":   {"", "has no certificate"},
		"requestheader-username-headers": {"", "names no header"},
		"requestheader-allowed-names":    {"front-proxy-client", "isn't a list"},
	} {
		data := newCA(t).data()
		data[key] = test.value
		err := New().read(t.Context(), fake.NewClientset(configMap(data)).CoreV1().ConfigMaps(metav1.NamespaceSystem))
		require.ErrorContains(t, err, test.says)
		require.ErrorContains(t, err, key)
		require.ErrorContains(t, err, `ConfigMap "extension-apiserver-authentication"`)
	}
}

func TestTheTrustIsKeptWhileTheAPIServerIsDown(t *testing.T) {
	t.Parallel()
	authority := newCA(t)
	p := proxyWith(t, authority.data())
	client := fake.NewClientset()
	client.PrependReactor("get", "configmaps", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	var logs synced.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	kept := make(chan error)
	go func() {
		kept <- p.Watch(ctx, slog.New(slog.NewTextHandler(&logs, nil)), client.CoreV1().ConfigMaps(metav1.NamespaceSystem))
	}()
	require.Eventually(t, func() bool { return strings.Contains(logs.String(), "connection refused") }, 30*time.Second, time.Millisecond)
	cancel()
	require.NoError(t, <-kept)
	certificate := authority.client("front-proxy-client")
	_, err := asks(t, p, &certificate, http.Header{"X-Remote-User": {"jane"}})
	require.NoError(t, err)
}
