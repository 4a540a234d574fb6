// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/page/pagetest"
	"github.com/entrypointer/entrypointer/test/loopback"
)

// TestAPageBehindAProxyThatHandsATokenOn runs the service with its page behind a proxy that
// knows its user by a cookie, as oauth2-proxy does, and verifies the service by the CA in the
// APIService.
func TestAPageBehindAProxyThatHandsATokenOn(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1000)
	apiServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Authorization")
		pagetest.New().ServeHTTP(w, r)
	}))
	defer apiServer.Close()
	address := loopback.FreeAddressFor(t)
	var client clients
	s := runsWith(t, t.TempDir(), func(c *clients, set *settings) {
		c.config = &rest.Config{Host: apiServer.URL, BearerToken: "service"}
		set.listenPage, set.pageDisk = address, 64<<20
		client = *c
	})
	get := pagetest.BehindAProxy(t, &url.URL{Scheme: "https", Host: "page.entrypointer-logs.svc"}, dialing(t, client, address)).Get
	comesAlong := &http.Cookie{Name: "other", Value: strings.Repeat("x", 20<<10)}
	status, body := get("/namespaces/team-a/", "reader", comesAlong)
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, "pipelinerun/release")
	status, body = get("/namespaces/team-a/taskrun/release-build/logs/text", "reader", comesAlong)
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, "step compile begins")
	for range len(asked) {
		require.Equal(t, "Bearer reader", <-asked)
	}
	for _, session := range []string{"", "nobody", "pod"} {
		status, body = get("/namespaces/team-a/", session, comesAlong)
		require.Equal(t, http.StatusUnauthorized, status, session)
		require.Contains(t, body, "bearer token")
	}
	metrics, err := http.Get("http://" + s.probes + "/metrics")
	require.NoError(t, err)
	defer metrics.Body.Close()
	text, err := io.ReadAll(metrics.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), `entrypointer_logs_connections{port="page"} 1`)
	require.NotContains(t, s.logs.String(), "reader")

	s.stop()
	require.NoError(t, <-s.ended)
}

// TestAHeaderThatIsTooLargeIsRefused sends cookies beyond what docs/page.md allows, as a proxy may.
func TestAHeaderThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	address := loopback.FreeAddressFor(t)
	var client clients
	s := runsWith(t, t.TempDir(), func(c *clients, set *settings) {
		c.config = &rest.Config{Host: "http://127.0.0.1:1"}
		set.listenPage, set.pageDisk = address, 64<<20
		client = *c
	})
	get := pagetest.BehindAProxy(t, &url.URL{Scheme: "https", Host: "page.entrypointer-logs.svc"}, dialing(t, client, address)).Get
	for size, want := range map[int]int{maxPageHeader / 2: http.StatusUnauthorized, 2 * maxPageHeader: http.StatusRequestHeaderFieldsTooLarge} {
		status, _ := get("/namespaces/team-a/", "nobody", &http.Cookie{Name: "other", Value: strings.Repeat("x", size)})
		require.Equal(t, want, status, "%d bytes", size)
	}
	s.stop()
	require.NoError(t, <-s.ended)
}

func TestAPageWithoutRoomForLogsDoesNotStart(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "absent"))
	kube := cluster()
	err := run(t.Context(), slog.New(slog.DiscardHandler), withAPIService(kube), settings{
		directory: t.TempDir(), listen: loopback.FreeAddressFor(t), listenProxied: loopback.FreeAddressFor(t), probes: loopback.FreeAddressFor(t), listenPage: loopback.FreeAddressFor(t), pageDisk: 64 << 20,
	})
	require.ErrorContains(t, err, "looking for room for the logs that users of the page open")
	require.ErrorContains(t, err, "mount a volume there")
}

// dialing returns what sends requests for the page to an address, and verifies the page by the CA in
// the APIService.
func dialing(t *testing.T, client clients, address string) *http.Transport {
	t.Helper()
	return &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: publishedCA(t, client)},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}
}

// publishedCA returns the CA that the service has written into its APIService.
func publishedCA(t *testing.T, client clients) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	require.Eventually(t, func() bool {
		service, err := client.apiServices.Get(t.Context(), apiServiceName, metav1.GetOptions{})
		if err != nil {
			return false
		}
		bundle, _, _ := unstructured.NestedString(service.Object, "spec", "caBundle")
		pem, err := base64.StdEncoding.DecodeString(bundle)
		return err == nil && pool.AppendCertsFromPEM(pem)
	}, time.Minute, 10*time.Millisecond)
	return pool
}

func TestWithoutItsFlagThereIsNoPage(t *testing.T) {
	t.Parallel()
	s := runs(t, t.TempDir())
	defer s.stop()
	require.Equal(t, serverNames, namesOf(settings{}))
	status, _ := s.send(http.MethodGet, "/namespaces/tenant/", "reader", nil)
	require.Equal(t, http.StatusNotFound, status)
	metrics, err := http.Get("http://" + s.probes + "/metrics")
	require.NoError(t, err)
	defer metrics.Body.Close()
	text, err := io.ReadAll(metrics.Body)
	require.NoError(t, err)
	require.NotContains(t, string(text), `port="page"`)
}
