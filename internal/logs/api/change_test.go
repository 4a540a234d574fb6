// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deleters may delete and hold what is in the namespace of their name.
type deleters struct{}

// MayChange implements Permissions.
func (deleters) MayChange(_ context.Context, user User, _, _, namespace, _ string) error {
	if user.Name == "everywhere" || user.Name == namespace {
		return nil
	}
	return ErrMayNotChange
}

// changes sends a request to a replica as the API server does for a user.
func (s *service) changes(replica int, method, path, user, body string) received {
	s.t.Helper()
	server := httptest.NewServer(s.servers[replica].Aggregated(&proxy{}))
	defer server.Close()
	r, err := http.NewRequestWithContext(s.t.Context(), method, server.URL+"/apis/logs.entrypointer.dev/v1alpha1/namespaces/"+path, strings.NewReader(body))
	require.NoError(s.t, err)
	r.Header.Set("Proxied-User", user)
	response, err := server.Client().Do(r)
	require.NoError(s.t, err)
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return received{response.StatusCode, response.Header, string(all)}
}

// serveDeleters is serve, with somebody who may delete logs, and with the log of the service.
func serveDeleters(t *testing.T) (s *service, log *bytes.Buffer, path string) {
	t.Helper()
	s, log = serve(t, 2), &bytes.Buffer{}
	for _, server := range s.servers {
		server.Permit(deleters{})
		server.logger = slog.New(slog.NewTextHandler(log, nil))
	}
	path = s.stream("stdout")
	s.accepted(http.MethodPatch, path+"/data", "secret", "Content-Range", "bytes 0-5/6")
	return s, log, path
}

func TestDeletedLogsAreGoneOnAllReplicasAndAudited(t *testing.T) {
	s, log, path := serveDeleters(t)
	s.begin("token-of-b", `{"name":"stdout","container":"main"}`)
	for range s.servers {
		require.Equal(t, "secret", s.text(path), "each replica knows the stream")
	}
	got := s.changes(0, http.MethodDelete, "tenant/logs/a", "tenant", "")
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Contains(t, got.body, "deleted 1 streams with 6 bytes")
	require.Contains(t, log.String(), `msg="Logs were deleted" audit=true user=tenant`)
	require.Contains(t, log.String(), "namespace=tenant pod=a")
	require.Contains(t, log.String(), "streams=1 bytes=6 left=0")
	for range s.servers {
		require.NotContains(t, s.do(http.MethodGet, path+"/data", "token-of-user-tenant", "").body, "secret")
	}
	_, names := s.lists("tenant", "")
	require.Equal(t, "b", names, "the logs of the other pod stay")
	require.Equal(t, http.StatusNotFound, s.changes(1, http.MethodDelete, "tenant/logs/a", "tenant", "").status)
}

func TestADryRunDeletesNothing(t *testing.T) {
	s, _, path := serveDeleters(t)
	for query, body := range map[string]string{"": `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}`, "?dryRun=All": ""} {
		got := s.changes(0, http.MethodDelete, "tenant/logs/a"+query, "tenant", body)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Contains(t, got.body, "1 streams with 6 bytes")
	}
	for query, body := range map[string]string{"": `{"dryRun":["Some"]}`, "?dryRun=true": "", "?x": `{`} {
		require.Equal(t, http.StatusBadRequest, s.changes(0, http.MethodDelete, "tenant/logs/a"+query, "tenant", body).status)
	}
	require.Equal(t, "secret", s.text(path))
}

func TestLogsAreDeletedAndHeldByThoseWhoMay(t *testing.T) {
	s, log, path := serveDeleters(t)
	for _, change := range []struct{ method, path string }{
		{http.MethodDelete, "tenant/logs/a"},
		{http.MethodPost, "tenant/logs/a/hold"},
		{http.MethodDelete, "tenant/logs/a/hold"},
		{http.MethodPost, "tenant/logs/-/hold?label=tekton.dev/taskRun=build"},
	} {
		got := s.changes(0, change.method, change.path, "stranger", "")
		require.Equal(t, http.StatusForbidden, got.status, got.body)
		require.Contains(t, got.body, "entrypointer-log-deletion")
	}
	// Another tenant's pod of the same name, and a name that leaves the namespace.
	require.Equal(t, http.StatusNotFound, s.changes(0, http.MethodDelete, "stranger/logs/a", "stranger", "").status)
	require.Equal(t, http.StatusBadRequest, s.changes(0, http.MethodDelete, "stranger/logs/..%2ftenant%2fa", "stranger", "").status)
	require.Equal(t, http.StatusNotFound, s.changes(0, http.MethodDelete, "tenant/logs/a", "tenant", `{"preconditions":{"uid":"another"}}`).status)
	require.Equal(t, http.StatusNotFound, s.changes(0, http.MethodDelete, "tenant/logs/a?container=other", "tenant", "").status)
	// Without permissions, nobody may.
	s.servers[1].Permit(noPermissions{})
	require.Equal(t, http.StatusForbidden, s.changes(1, http.MethodDelete, "tenant/logs/a", "tenant", "").status)
	require.Equal(t, "secret", s.text(path))
	require.NotContains(t, log.String(), "streams=1")
}

func TestTheOwnerOfALaterNamespaceDeletesNoLogsOfTheFormer(t *testing.T) {
	s, _, path := serveDeleters(t)
	s.who.namespace = Namespace{UID: "uid-2", Created: time.Now()}
	require.Equal(t, http.StatusNotFound, s.changes(0, http.MethodDelete, "tenant/logs/a", "tenant", "").status)
	require.Equal(t, "secret", s.do(http.MethodGet, path+"/data", "token-of-user-everywhere", "").body)
	require.Equal(t, http.StatusOK, s.changes(0, http.MethodDelete, "tenant/logs/a", "everywhere", "").status)
}

func TestHeldLogsAreListedAsSuchAndNotDeleted(t *testing.T) {
	s, log, path := serveDeleters(t)
	require.Equal(t, http.StatusNotFound, s.changes(0, http.MethodDelete, "tenant/logs/a/hold", "tenant", "").status)
	require.Equal(t, http.StatusOK, s.changes(0, http.MethodPost, "tenant/logs/a/hold", "tenant", "").status)
	require.Contains(t, log.String(), `msg="Logs were held" audit=true user=tenant`)
	list, _ := s.lists("tenant", "")
	require.True(t, list.Items[0].Status.Held)
	got := s.changes(1, http.MethodDelete, "tenant/logs/a", "tenant", "")
	require.Equal(t, http.StatusConflict, got.status)
	require.Contains(t, got.body, "release them first")
	require.Equal(t, "secret", s.text(path))
	require.Equal(t, http.StatusOK, s.changes(1, http.MethodDelete, "tenant/logs/a/hold", "tenant", "").status)
	list, _ = s.lists("tenant", "")
	require.False(t, list.Items[0].Status.Held)
	for _, wrong := range []string{"tenant/logs/-/hold", "tenant/logs/-/hold?label=app=web", "tenant/logs/a/hold?label=tekton.dev/taskRun=x", "tenant/logs/a/hold?dryRun=All"} {
		require.Equal(t, http.StatusBadRequest, s.changes(0, http.MethodPost, wrong, "tenant", "").status, wrong)
	}
	require.Equal(t, http.StatusOK, s.changes(0, http.MethodDelete, "tenant/logs/a", "tenant", "").status)
}
