// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/loglist"
	"github.com/entrypointer/entrypointer/internal/tracelink"
)

// A proxy is a FrontProxy that trusts a header of the test.
type proxy struct{ err error }

// User implements FrontProxy.
func (p *proxy) User(r *http.Request) (User, error) {
	return User{Name: r.Header.Get("Proxied-User")}, p.err
}

// aggregated sends a request as the API server does for a user.
func (s *service) aggregated(front *proxy, path, user string, headers ...string) received {
	s.t.Helper()
	server := httptest.NewServer(s.servers[0].Aggregated(front))
	defer server.Close()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, server.URL+"/apis/logs.entrypointer.dev/v1alpha1"+path, nil)
	require.NoError(s.t, err)
	r.Header.Set("Proxied-User", user)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := server.Client().Do(r)
	require.NoError(s.t, err)
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return received{response.StatusCode, response.Header, string(all)}
}

func TestReadsThroughTheAPIServerReturnTheSame(t *testing.T) {
	s := serve(t, 1)
	path := s.stream("stdout")
	s.accepted(http.MethodPatch, path+"/data", "hello", "Content-Range", "bytes 0-4/5")
	const tenant = "/namespaces/tenant"
	for aggregated, own := range map[string]string{
		"/logs?pod=a": ofA, path: path, path + "/data": path + "/data", path + "/data?from=2": path + "/data?from=2",
		path + "/log?follow=true": path + "/data",
	} {
		got := s.aggregated(&proxy{}, tenant+aggregated, "tenant")
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Equal(t, s.do(http.MethodGet, own, "token-of-user-tenant", "").body, got.body, aggregated)
	}
	require.Contains(t, s.aggregated(&proxy{}, tenant+path+"/log", "tenant", "Accept", eventStreamType, "Last-Event-ID", "1").body, "event: end\n")
}

func TestReadsThroughTheAPIServerNeedPermission(t *testing.T) {
	s := serve(t, 1)
	path := s.stream("stdout")
	for _, test := range []struct {
		path, user string
		front      error
		status     int
		says       string
	}{
		{"/namespaces/tenant/logs?pod=a", "stranger", nil, http.StatusForbidden, `"reason":"Forbidden"`},
		{"/namespaces/tenant" + path, "stranger", nil, http.StatusForbidden, `"kind":"Status"`},
		{"/namespaces/tenant" + path + "/log", "stranger", nil, http.StatusForbidden, ErrForbidden.Error()},
		{"/namespaces/stranger" + path, "stranger", nil, http.StatusNotFound, `"reason":"NotFound"`},
		{"/namespaces/stranger" + path + "/data", "tenant", nil, http.StatusNotFound, "no such stream"},
		{"/namespaces/tenant/logs?pod=a&namespace=stranger", "stranger", nil, http.StatusForbidden, "the path's namespace counts"},
		{"/namespaces/tenant/logs?pod=", "tenant", nil, http.StatusBadRequest, "invalid name"},
		{"/namespaces/tenant/logs", "stranger", nil, http.StatusForbidden, `"reason":"Forbidden"`},
		{"/namespaces/tenant/logs/a", "stranger", nil, http.StatusForbidden, `"reason":"Forbidden"`},
		{"/namespaces/tenant/logs/A", "tenant", nil, http.StatusBadRequest, "invalid name"},
		{"/namespaces/tenant/logs/b", "tenant", nil, http.StatusNotFound, `there are no logs of a pod \"b\" in namespace \"tenant\"`},
		{"/namespaces/tenant/logs", "tenant", ErrNotProxy, http.StatusUnauthorized, `"code":401`},
		{"/namespaces/tenant/logs/a", "tenant", ErrNotProxy, http.StatusUnauthorized, `"code":401`},
		{"/namespaces/tenant/logs?watch=true", "tenant", nil, http.StatusMethodNotAllowed, `"reason":"MethodNotAllowed"`},
		{"/logs", "everywhere", nil, http.StatusMethodNotAllowed, "kubectl get logs -n NAMESPACE"},
		{"/namespaces/tenant/logs?pod=a", "tenant", ErrNotProxy, http.StatusUnauthorized, "only the API server may use"},
		{"/namespaces/tenant" + path + "/log", "tenant", ErrNotProxy, http.StatusUnauthorized, `"code":401`},
		{"/namespaces/tenant/logs?pod=a", "tenant", errors.New("unknown yet"), http.StatusServiceUnavailable, `"reason":"ServiceUnavailable"`},
	} {
		got := s.aggregated(&proxy{test.front}, test.path, test.user)
		require.Equal(t, test.status, got.status, "%s: %s", test.path, got.body)
		if !strings.Contains(test.says, "counts") {
			require.Contains(t, got.body, test.says)
		}
	}
	got := s.aggregated(&proxy{ErrNotProxy}, "/namespaces/tenant/logs?pod=a", "", "Authorization", "Bearer token-of-user-tenant")
	require.Equal(t, http.StatusUnauthorized, got.status, "a token opens the service's own paths alone")
}

func TestKubernetesClientsDiscoverTheAPI(t *testing.T) {
	s := serve(t, 1)
	for _, path := range []string{"", "/"} {
		got := s.aggregated(&proxy{ErrNotProxy}, path, "")
		require.Equal(t, http.StatusOK, got.status)
		require.JSONEq(t, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"logs.entrypointer.dev/v1alpha1","resources":[
			{"name":"logs","singularName":"log","namespaced":true,"kind":"Log","verbs":["get","list"]},
			{"name":"logs/data","singularName":"","namespaced":true,"kind":"Log","verbs":["get"]},
			{"name":"logs/log","singularName":"","namespaced":true,"kind":"Log","verbs":["get"]},
			{"name":"logs/hold","singularName":"","namespaced":true,"kind":"Log","verbs":["create","delete"]}]}`, got.body)
	}
	require.Equal(t, http.StatusNotFound, s.aggregated(&proxy{}, "/namespaces/tenant/pods", "tenant").status)
}

func TestDiscoverySaysWhereTracesAre(t *testing.T) {
	s := serve(t, 1)
	template, err := tracelink.Parse("https://jaeger.example/trace/{traceID}")
	require.NoError(t, err)
	s.servers[0].LinkTraces(template)
	var found loglist.Discovery
	require.NoError(t, json.Unmarshal([]byte(s.aggregated(&proxy{ErrNotProxy}, "", "").body), &found))
	require.Equal(t, template.String(), found.TraceURL)
	require.Equal(t, "APIResourceList", found.Kind)
	require.Len(t, found.APIResources, 4)
}
