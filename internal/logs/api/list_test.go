// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/pkg/tenants"
)

const ofA = "/logs?namespace=tenant&pod=a"

func TestTheStreamsOfAPodAreListed(t *testing.T) {
	s := serve(t, 3)
	require.JSONEq(t, `{"logs":[]}`, s.do(http.MethodGet, ofA, "token-of-user-tenant", "").body)
	var want []string
	for _, body := range []string{
		`{"name":"stdout"}`,
		`{"name":"stderr","container":"x","start":"1"}`,
		`{"name":"stdout","container":"x","start":"1"}`,
		`{"name":"stdout","container":"x","start":"2"}`,
	} {
		made := s.do(http.MethodPost, "/logs", "token-of-a", body)
		require.Equal(t, http.StatusOK, made.status, made.body)
		id, _, _ := strings.Cut(strings.TrimPrefix(made.body, `{"id":"`), `"`)
		rest := strings.TrimPrefix(body, "{")
		for _, key := range []string{"container", "start"} {
			if !strings.Contains(rest, key) {
				rest = fmt.Sprintf("%q:%q,", key, "") + rest
			}
		}
		want = append(want, fmt.Sprintf(`{"id":%q,"namespace":"tenant","pod":"a","podUID":"uid-a",%s`, id, rest))
	}
	require.Equal(t, http.StatusOK, s.do(http.MethodPost, "/logs", "token-of-b", `{"name":"stdout"}`).status)
	for range 3 {
		got := s.do(http.MethodGet, ofA, "token-of-user-tenant", "")
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.JSONEq(t, `{"logs":[`+strings.Join(want, ",")+`]}`, got.body)
	}
}

func TestListingNeedsPermissionForThePodsLogs(t *testing.T) {
	s := serve(t, 1)
	s.stream("stdout")
	for token, want := range map[string]int{
		"": http.StatusUnauthorized, "x": http.StatusUnauthorized, "token-of-a": http.StatusUnauthorized,
		"token-of-user-stranger": http.StatusForbidden, "token-of-user-tenant": http.StatusOK,
	} {
		require.Equal(t, want, s.do(http.MethodGet, ofA, token, "").status, token)
		require.Equal(t, want, s.do(http.MethodGet, "/logs?namespace=tenant&pod=none", token, "").status, token)
	}
}

func TestAnInvalidPodNameIsRefused(t *testing.T) {
	s := serve(t, 1)
	for _, query := range []string{"", "?namespace=tenant", "?pod=a", "?namespace=..&pod=a", "?namespace=tenant&pod=..%2fa", "?namespace=Tenant&pod=a"} {
		got := s.do(http.MethodGet, "/logs"+query, "token-of-user-tenant", "")
		require.Equal(t, http.StatusBadRequest, got.status, query)
		require.Contains(t, got.body, "invalid name")
		require.Equal(t, http.StatusUnauthorized, s.do(http.MethodGet, "/logs"+query, "x", "").status, "authentication comes before the parameters")
	}
}

func TestAListSaysThatThereIsMore(t *testing.T) {
	s := serve(t, 1)
	s.stream("stdout")
	require.NotContains(t, s.do(http.MethodGet, ofA, "token-of-user-tenant", "").body, `"more"`)
	for i := range streams.MaxListed {
		// As the storage writes them, but without waiting for the disk.
		require.NoError(t, os.WriteFile(filepath.Join(s.directory, "pods", "tenant", "a", fmt.Sprintf("%032x", i)), nil, 0o600))
	}
	got := s.do(http.MethodGet, ofA, "token-of-user-tenant", "")
	require.Equal(t, http.StatusOK, got.status)
	require.Contains(t, got.body, `"more":true`)
}

func TestListsCountAsReaders(t *testing.T) {
	s := serve(t, 1)
	s.servers[0].readers = tenants.NewShares(0, 0, 0)
	require.Equal(t, http.StatusTooManyRequests, s.do(http.MethodGet, ofA, "token-of-user-tenant", "").status)
}

func TestAFailedListIsToBeRetried(t *testing.T) {
	s := serve(t, 1)
	path := s.stream("stdout")
	require.NoError(t, os.WriteFile(filepath.Join(s.directory, "streams", strings.TrimPrefix(path, "/logs/"), "meta"), nil, 0o600))
	got := s.do(http.MethodGet, ofA, "token-of-user-tenant", "")
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "1", got.header.Get("Retry-After"))
}

func TestAStoppingServerCutsFollowers(t *testing.T) {
	s := serve(t, 1)
	path := s.stream("stdout")
	s.accepted(http.MethodPatch, path+"/data", "hello", "Content-Range", "bytes 0-4/*")
	ended := make(chan error, 1)
	begun := make(chan struct{})
	follow := s.request(http.MethodGet, path+"/data?follow=true", "token-of-user-tenant", "")
	go func() {
		response, err := http.DefaultClient.Do(follow)
		if err != nil {
			ended <- err
			return
		}
		defer response.Body.Close()
		_, err = io.ReadFull(response.Body, make([]byte, 5))
		close(begun)
		if err == nil {
			_, err = io.ReadAll(response.Body)
		}
		ended <- err
	}()
	<-begun
	s.servers[0].CutFollowers()
	s.servers[0].CutFollowers()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a cut connection doesn't look like the end")
	case <-time.After(5 * time.Second):
		t.Fatal("the follower still follows")
	}
	require.Equal(t, "hello", s.text(path), "others are answered")
	s.accepted(http.MethodPatch, path+"/data", " you", "Content-Range", "bytes 5-8/*")
}

func TestListingALabelNeedsPermissionForTheNamespace(t *testing.T) {
	s := serve(t, 2)
	made := s.do(http.MethodPost, "/logs", "token-of-a", `{"name":"stdout","labels":{"tekton.dev/taskRun":"build","tekton.dev/pipelineTask":"compile"}}`)
	require.Equal(t, http.StatusOK, made.status, made.body)
	require.Equal(t, http.StatusOK, s.do(http.MethodPost, "/logs", "token-of-b", `{"name":"stdout"}`).status)
	const ofBuild = "/logs?namespace=tenant&label=tekton.dev/taskRun=build"
	got := s.do(http.MethodGet, ofBuild, "token-of-user-tenant", "")
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Contains(t, got.body, `"pod":"a"`)
	require.Contains(t, got.body, `"labels":{"tekton.dev/pipelineTask":"compile","tekton.dev/taskRun":"build"}`)
	require.NotContains(t, got.body, `"pod":"b"`)
	require.Equal(t, got.body, s.aggregated(&proxy{}, "/namespaces/tenant/logs?label=tekton.dev/taskRun=build", "tenant").body)
	require.Equal(t, http.StatusForbidden, s.do(http.MethodGet, ofBuild, "token-of-user-stranger", "").status)
	s.who.onlyPod = "a"
	require.Equal(t, http.StatusForbidden, s.do(http.MethodGet, ofBuild, "token-of-user-tenant", "").status, "permission for one pod isn't enough")
	require.Equal(t, http.StatusOK, s.do(http.MethodGet, ofA, "token-of-user-tenant", "").status)
	s.who.onlyPod = ""

	for query, says := range map[string]string{
		"namespace=tenant&label=app=web":                    "use one of tekton.dev/taskRun",
		"namespace=tenant&label=tekton.dev/taskRun":         "it is empty",
		"namespace=tenant&label=":                           "use one of",
		"namespace=..&label=tekton.dev/taskRun=x":           "invalid name",
		"namespace=tenant&label=tekton.dev/taskRun=x&pod=a": "pod and label are both set",
		"namespace=tenant&label=tekton.dev/taskRun=..%2f..": "logs can't be listed by this label",
	} {
		got := s.do(http.MethodGet, "/logs?"+query, "token-of-user-tenant", "")
		require.Equal(t, http.StatusBadRequest, got.status, query)
		require.Contains(t, got.body, says, query)
	}
	for _, labels := range []string{`{"app":"web"}`, `{"tekton.dev/taskRun":"../x"}`, `{"tekton.dev/taskRun":""}`} {
		got := s.do(http.MethodPost, "/logs", "token-of-a", `{"name":"stdout","labels":`+labels+`}`)
		require.Equal(t, http.StatusBadRequest, got.status, labels)
		require.Contains(t, got.body, "logs can't be listed by this label")
	}
}
