// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/logs/loglist"
	"github.com/entrypointer/entrypointer/pkg/tenants"
)

const (
	podsOfTenant = "/pods?namespace=tenant"
	asTable      = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)

// begin creates streams of a pod.
func (s *service) begin(token string, bodies ...string) {
	s.t.Helper()
	for _, body := range bodies {
		created := s.do(http.MethodPost, "/logs", token, body)
		require.Equal(s.t, http.StatusOK, created.status, created.body)
	}
}

// date changes the time at which the streams of a pod were created.
func (s *service) date(pod string, at time.Time) {
	s.t.Helper()
	directory := filepath.Join(s.directory, "pods", "tenant", pod)
	entries, err := os.ReadDir(directory)
	require.NoError(s.t, err)
	for _, entry := range entries {
		require.NoError(s.t, os.Chtimes(filepath.Join(directory, entry.Name()), at, at))
	}
}

// lists returns the list of pods that a user gets, and the names in it.
func (s *service) lists(user, parameters string) (list loglist.List, names string) {
	s.t.Helper()
	got := s.do(http.MethodGet, podsOfTenant+parameters, "token-of-user-"+user, "")
	require.Equal(s.t, http.StatusOK, got.status, got.body)
	require.NoError(s.t, json.Unmarshal([]byte(got.body), &list))
	require.Equal(s.t, "LogList", list.Kind)
	for _, item := range list.Items {
		names += item.Name + " "
	}
	return list, strings.TrimSpace(names)
}

func TestThePodsWithLogsAreListedTheNewestFirst(t *testing.T) {
	s := serve(t, 2)
	list, _ := s.lists("tenant", "")
	require.NotNil(t, list.Items)
	require.Empty(t, list.Items)
	s.begin("token-of-a", `{"name":"stdout","container":"main","start":"1"}`, `{"name":"stdout","container":"main","start":"2"}`, `{"name":"stdout","container":"proxy","start":"1"}`)
	s.begin("token-of-b", `{"name":"stdout","container":"main","start":"1","labels":{"entrypointer.dev/job":"report-29929875","entrypointer.dev/cronjob":"report"}}`)
	first, last := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC), time.Date(2026, 11, 26, 4, 0, 0, 0, time.UTC)
	s.date("a", last)
	s.date("b", first)
	list, names := s.lists("tenant", "")
	require.Equal(t, "a b", names)
	require.Equal(t, loglist.Status{
		FirstStreamTime: metav1.NewTime(last.Local()), LastStreamTime: metav1.NewTime(last.Local()), Streams: 3, Pods: 1, Containers: []string{"main", "proxy"}, Runs: 3, Bytes: new(int64(0)),
	}, list.Items[0].Status)
	require.Equal(t, "uid-a", string(list.Items[0].UID))
	require.Equal(t, "job/report-29929875", list.Items[1].Status.Owner)
	require.Equal(t, "report", list.Items[1].Labels["entrypointer.dev/cronjob"])
	require.Empty(t, list.Continue)
	require.Nil(t, list.RemainingItemCount)
	for parameters, want := range map[string]string{
		"&since=2026-11-26T03:30:00Z": "a", "&since=2026-11-26T05:00:00%2B01:00": "a", "&since=2026-11-26T05:00:00Z": "",
		"&until=2026-11-26T00:00:00Z": "", "&until=2026-12-26T00:00:00Z": "a b", "&since=2026-11-26T03:30:00Z&until=2026-11-26T05:00:00Z": "a",
		"&pod=b": "b", "&pod=c": "", "&limit=0": "a b", "&limit=1": "a",
		"&labelSelector=entrypointer.dev/cronjob%3Dreport": "b", "&labelSelector=entrypointer.dev/cronjob%3Dother": "",
		"&labelSelector=entrypointer.dev/cronjob%3Dreport,!entrypointer.dev/job": "",
	} {
		_, names := s.lists("tenant", parameters)
		require.Equal(t, want, names, parameters)
	}
	list, _ = s.lists("tenant", "&limit=1")
	require.Equal(t, int64(1), *list.RemainingItemCount)
	list, names = s.lists("tenant", "&limit=1&continue="+list.Continue)
	require.Equal(t, "b", names)
	require.Empty(t, list.Continue)
}

func TestParametersOfAListThatAreWrongAreNamed(t *testing.T) {
	s := serve(t, 1)
	for parameters, says := range map[string]string{
		"limit=many": `parameter limit is \"many\": use a number of pods`, "limit=-1": "use a number of pods", "since=yesterday": "use a time such as", "until=tomorrow": "parameter until is",
		"continue=_": "use that of a former page", "continue=MTI": "", "continue=YS9i": "use that of a former page",
		"labelSelector=app%3Dweb": "logs can't be listed by this label: use one of tekton.dev/taskRun", "labelSelector=a%3D%3D%3Db": "use labels such as",
		"labelSelector=entrypointer.dev/job": "logs can't be listed by this label", "fieldSelector=metadata.name%3Da": "use labelSelector",
		"pod=..": "invalid name", "namespace=..": "invalid name",
	} {
		query := "/pods?" + parameters
		if !strings.HasPrefix(parameters, "namespace") {
			query += "&namespace=tenant"
		}
		got := s.do(http.MethodGet, query, "token-of-user-tenant", "")
		if says == "" {
			require.Equal(t, http.StatusOK, got.status, "an older position")
			continue
		}
		require.Equal(t, http.StatusBadRequest, got.status, "%s: %s", parameters, got.body)
		require.Contains(t, got.body, says, parameters)
	}
}

func TestListingPodsNeedsPermissionForAllOfThem(t *testing.T) {
	s := serve(t, 1)
	s.begin("token-of-a", `{"name":"stdout"}`)
	for token, want := range map[string]int{"": http.StatusUnauthorized, "token-of-a": http.StatusUnauthorized, "token-of-user-stranger": http.StatusForbidden} {
		require.Equal(t, want, s.do(http.MethodGet, podsOfTenant, token, "").status, token)
	}
	s.who.onlyPod = "a"
	require.Equal(t, http.StatusForbidden, s.do(http.MethodGet, podsOfTenant, "token-of-user-tenant", "").status, "permission for one pod isn't enough")
	_, names := s.lists("tenant", "&pod=a")
	require.Equal(t, "a", names)
	require.Equal(t, http.StatusOK, s.aggregated(&proxy{}, "/namespaces/tenant/logs/a", "tenant").status)
	require.Equal(t, http.StatusForbidden, s.aggregated(&proxy{}, "/namespaces/tenant/logs/b", "tenant").status)
	s.who.onlyPod = ""
	s.servers[0].readers = tenants.NewShares(0, 0, 0)
	require.Equal(t, http.StatusTooManyRequests, s.do(http.MethodGet, podsOfTenant, "token-of-user-tenant", "").status)
}

func TestPodsOfAFormerNamespaceAreNotListed(t *testing.T) {
	s := serve(t, 1)
	s.begin("token-of-a", `{"name":"stdout"}`)
	s.begin("token-of-b", `{"name":"stdout"}`)
	s.date("b", time.Now().Add(-2*time.Hour))
	// Pod a has written just after its namespace was deleted, which only its UID tells.
	s.who.namespace = Namespace{UID: "uid-2", Created: time.Now().Add(-time.Minute)}
	_, names := s.lists("tenant", "")
	require.Empty(t, names)
	require.Equal(t, http.StatusNotFound, s.aggregated(&proxy{}, "/namespaces/tenant/logs/a", "tenant").status)
	_, names = s.lists("everywhere", "")
	require.Equal(t, "a b", names)
	s.begin("token-of-next", `{"name":"stdout"}`)
	list, names := s.lists("tenant", "")
	require.Equal(t, "a", names)
	require.Equal(t, 1, list.Items[0].Status.Pods)
	require.Equal(t, "uid-next", string(list.Items[0].UID))
	s.who.namespace = Namespace{}
	_, names = s.lists("tenant", "")
	require.Empty(t, names)
	s.who.noNamespace = http.ErrHandlerTimeout
	require.Equal(t, http.StatusServiceUnavailable, s.do(http.MethodGet, podsOfTenant, "token-of-user-tenant", "").status)
}

// It is what kubectl get logs prints, and kubectl get logs POD.
func TestKubectlGetsLogsAsRows(t *testing.T) {
	s := serve(t, 1)
	s.begin("token-of-a", `{"name":"stdout","container":"main","start":"1","labels":{"entrypointer.dev/job":"report"}}`)
	s.begin("token-of-b", `{"name":"stdout"}`)
	s.date("a", time.Now().Add(-3*time.Hour))
	s.date("b", time.Now().Add(-25*time.Hour))
	table := func(path string) (table metav1.Table) {
		got := s.aggregated(&proxy{}, path, "tenant", "Accept", asTable)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.NoError(t, json.Unmarshal([]byte(got.body), &table))
		require.Equal(t, metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"}, table.TypeMeta)
		return table
	}
	list := table("/namespaces/tenant/logs?limit=500")
	var rows []string
	for _, row := range list.Rows {
		require.Len(t, row.Cells, len(list.ColumnDefinitions))
		rows = append(rows, fmt.Sprint(row.Cells))
	}
	require.Equal(t, []string{"[a job/report main 1 False False 3h 3h 1 1]", "[b <none>  1 False False 25h 25h 1 1]"}, rows)
	require.Equal(t, rows[0], fmt.Sprint(table("/namespaces/tenant/logs/a").Rows[0].Cells))
	for include, want := range map[string]string{"": `"kind":"PartialObjectMetadata"`, "Metadata": `"name":"a"`, "Object": `"containers":["main"]`, "None": "null"} {
		list := table("/namespaces/tenant/logs?includeObject=" + include)
		raw, err := json.Marshal(list.Rows[0].Object)
		require.NoError(t, err)
		require.Contains(t, string(raw), want, include)
	}
	require.Equal(t, "1", fmt.Sprint(*table("/namespaces/tenant/logs?limit=1").RemainingItemCount))

	for accept, want := range map[string]string{
		"": "LogList", "*/*": "LogList", "application/json": "LogList", "application/json, " + asTable: "LogList", "a/b/c;": "LogList",
		"application/json;as=Table;v=v2;g=meta.k8s.io, application/json":                                                "LogList",
		"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io, application/json;as=Table;v=v1;g=meta.k8s.io": "Table",
	} {
		got := s.aggregated(&proxy{}, "/namespaces/tenant/logs", "tenant", "Accept", accept)
		require.Contains(t, got.body, `{"kind":"`+want+`"`, accept)
	}
	one := s.aggregated(&proxy{}, "/namespaces/tenant/logs/a", "tenant")
	require.Contains(t, one.body, `{"kind":"Log","apiVersion":"logs.entrypointer.dev/v1alpha1","metadata":{"name":"a","namespace":"tenant"`)
}

// A pod that writes by itself can call its containers anything.
func TestRowsEscapeWhatPodsHaveSaid(t *testing.T) {
	s := serve(t, 1)
	s.begin("token-of-a", `{"name":"stdout","container":"x\u001b[2J\ny"}`)
	got := s.aggregated(&proxy{}, "/namespaces/tenant/logs", "tenant", "Accept", asTable)
	require.Contains(t, got.body, `"x\\x1b[2J\\ny"`)
}

func TestAnIncompleteListSaysSo(t *testing.T) {
	s := serve(t, 1)
	s.begin("token-of-a", `{"name":"stdout","labels":{"entrypointer.dev/job":"report"}}`)
	entries := filepath.Join(s.directory, "labels", "tenant", "entrypointer.dev~job", "report")
	for i := range 1000 {
		// As the storage writes them, but without waiting for the disk.
		require.NoError(t, os.WriteFile(filepath.Join(entries, fmt.Sprintf("%032x", i)), nil, 0o600))
	}
	s.date("a", time.Now().Add(time.Minute))
	got := s.aggregated(&proxy{}, "/namespaces/tenant/logs?labelSelector="+url.QueryEscape("entrypointer.dev/job=report"), "tenant")
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Contains(t, got.body, `"incomplete":true`)
	require.Contains(t, got.header.Get("Warning"), "pods may be missing from this list")
}
