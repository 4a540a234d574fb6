// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"math/big"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

func TestTheCAIsPublishedToTheAPIServer(t *testing.T) {
	t.Parallel()
	client := withAPIService(cluster())
	for range 2 {
		require.NoError(t, publishCA(t.Context(), client.apiServices, []byte("the CA")))
		service, err := client.apiServices.Get(t.Context(), apiServiceName, metav1.GetOptions{})
		require.NoError(t, err)
		bundle, _, err := unstructured.NestedString(service.Object, "spec", "caBundle")
		require.NoError(t, err)
		require.Equal(t, base64.StdEncoding.EncodeToString([]byte("the CA")), bundle)
	}
	require.NoError(t, client.apiServices.Delete(t.Context(), apiServiceName, metav1.DeleteOptions{}))
	err := publishCA(t.Context(), client.apiServices, nil)
	require.ErrorContains(t, err, `setting the CA of APIService "v1alpha1.logs.entrypointer.dev"`)
	require.ErrorContains(t, err, "ko apply -f config/logs")
}

// The TLS handshake accepts any client certificate, so the handler has to verify it.
func TestHeadersDoNotCountWithASelfSignedCertificate(t *testing.T) {
	t.Parallel()
	s := runs(t, t.TempDir())
	defer s.stop()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "front-proxy-client"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	const root = "/apis/" + endpoint.Group + "/" + endpoint.Version
	for _, certificates := range [][]tls.Certificate{nil, {{Certificate: [][]byte{raw}, PrivateKey: key}}} {
		transport := s.client.Transport.(*http.Transport).Clone()
		transport.TLSClientConfig.Certificates = certificates
		s.client.Transport = transport
		for _, path := range []string{"/logs?pod=pod", "/logs/" + s.stream()[len("/logs/"):], "/logs/" + s.stream()[len("/logs/"):] + "/data"} {
			status, _ := s.send(http.MethodGet, root+"/namespaces/tenant"+path, "reader", nil, "X-Remote-User", "admin", "X-Remote-Group", "system:masters")
			if certificates == nil {
				require.Equal(t, http.StatusUnauthorized, status, path)
			} else { // the cluster of this test has no ConfigMap to verify the API server
				require.Equal(t, http.StatusServiceUnavailable, status, path)
			}
		}
		status, _ := s.send(http.MethodGet, root, "", nil)
		require.Equal(t, http.StatusOK, status, "the API server's availability check needs no user")
	}
}
