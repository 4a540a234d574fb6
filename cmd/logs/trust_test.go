// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/frontproxy"
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

// client returns a client that connects to an address, and shows a certificate if there is
// one.
func (s *service) clientAt(address string, certificates ...tls.Certificate) *http.Client {
	config, err := s.endpoint.TLS()
	require.NoError(s.t, err)
	config.Certificates = certificates
	transport := &http.Transport{TLSClientConfig: config, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// apiServer returns a client with a certificate of the API server's. It returns when the service
// has read how to verify that.
func (s *service) apiServer(front *ca) *http.Client {
	client := s.clientAt(s.proxied, front.client(s.t))
	require.Eventually(s.t, func() bool {
		response, err := client.Get(s.endpoint.Address + aggregated)
		return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}, time.Minute, 10*time.Millisecond, "the ConfigMap is read")
	return client
}

const aggregated = "/apis/" + endpoint.Group + "/" + endpoint.Version

func TestOnlyTheAPIServerGetsThroughTheHandshakeOfItsPort(t *testing.T) {
	t.Parallel()
	front, other := newCA(t), newCA(t)
	s := runs(t, t.TempDir(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: frontproxy.ConfigMap},
		Data:       map[string]string{"requestheader-client-ca-file": front.pem(), "requestheader-username-headers": `["X-Remote-User"]`},
	})
	defer s.stop()
	ask := func(client *http.Client, path string) (int, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.endpoint.Address+aggregated+path, nil)
		require.NoError(t, err)
		request.Header.Set("X-Remote-User", "reader")
		response, err := client.Do(request)
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	status, err := ask(s.apiServer(front), "/namespaces/tenant/logs?pod=pod")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	for name, foreign := range map[string]*http.Client{"no certificate": s.clientAt(s.proxied), "another CA's": s.clientAt(s.proxied, other.client(t))} {
		_, err := ask(foreign, "")
		require.ErrorContains(t, err, "tls", name)
	}
	status, err = ask(s.clientAt(s.address, front.client(t)), "")
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, status, "pods have a port of their own")
}

// Silent connections take nothing from others, whoever opens them. The service closes each after
// headerTimeout, so that a busy machine doesn't get to maxConnections of them.
func TestConnectionsWithoutEndKeepNobodyElseOut(t *testing.T) {
	t.Parallel()
	const most = 60
	front := newCA(t)
	s := runsWith(t, t.TempDir(), func(_ *clients, set *settings) { set.podConnections = most }, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: frontproxy.ConfigMap},
		Data:       map[string]string{"requestheader-client-ca-file": front.pem(), "requestheader-username-headers": `["X-Remote-User"]`},
	})
	defer s.stop()
	apiServer := s.apiServer(front)
	for i := range most + 100 {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(66+i%3))}}
		silent, err := dialer.DialContext(t.Context(), "tcp", s.address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = silent.Close() })
	}
	s.stream()
	apiServer.CloseIdleConnections()
	response, err := apiServer.Get(s.endpoint.Address + aggregated)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Positive(t, s.counts(`entrypointer_logs_closed_connections_total{port="pods"}`))
	require.Zero(t, s.counts(`entrypointer_logs_closed_connections_total{port="proxied"}`))
}

// counts returns the value of a metric.
func (s *service) counts(series string) float64 {
	response, err := http.Get("http://" + s.probes + "/metrics")
	require.NoError(s.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	_, rest, found := strings.Cut(string(text), "\n"+series+" ")
	require.True(s.t, found, "there is no %s", series)
	value, _, _ := strings.Cut(rest, "\n")
	number, err := strconv.ParseFloat(value, 64)
	require.NoError(s.t, err)
	return number
}
