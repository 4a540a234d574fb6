// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/storage"
	"github.com/entrypointer/entrypointer/internal/logs/storage/storagetest"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
)

// leaky returns a service that has a line with a secret, and the path of the stream for changes.
func leaky(t *testing.T) (s *service, log fmt.Stringer, reads, changes string) {
	t.Helper()
	s, log, _ = serveDeleters(t)
	reads = s.print("token-of-a", "stderr", "first\npassword=hunter2\nlast\n")
	return s, log, reads, "tenant/logs/" + path.Base(reads)
}

const redactSecret = `{"kind":"DeleteOptions","apiVersion":"v1","ranges":["6-21"]}`

func TestALineIsDeletedOnAllReplicasAndAudited(t *testing.T) {
	s, log, reads, changes := leaky(t)
	for range s.servers {
		require.Contains(t, s.text(reads), "hunter2", "each replica knows the stream")
	}
	for query, body := range map[string]string{"": strings.Replace(redactSecret, `"ranges"`, `"dryRun":["All"],"ranges"`, 1), "?dryRun=All": redactSecret} {
		got := s.changes(0, http.MethodDelete, changes+query, "tenant", body)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Contains(t, got.body, "16 bytes")
		require.Contains(t, s.text(reads), "hunter2", "that was a dry run")
	}
	require.Contains(t, log.String(), `msg="Logs would be deleted" audit=true user=tenant`)
	require.NotContains(t, log.String(), "Logs were deleted")
	for range 2 {
		got := s.changes(1, http.MethodDelete, changes, "tenant", redactSecret)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Contains(t, got.body, "deleted 16 bytes")
	}
	require.Contains(t, log.String(), `msg="Logs were deleted" audit=true user=tenant`)
	require.Contains(t, log.String(), "namespace=tenant pod=a container=main")
	require.Contains(t, log.String(), "ranges=1 bytes=16")
	require.NotContains(t, log.String(), "hunter2")
	for range s.servers {
		require.Equal(t, "first\n****************\nlast\n", s.text(reads))
	}
	require.Empty(t, s.search("tenant", "grep=hunter").lines)
	require.Equal(t, []string{"a/stderr:****************"}, s.search("tenant", "grep=^[*]").lines)
}

func TestBytesAreDeletedByThoseWhoMayAndOnlyAsNamed(t *testing.T) {
	s, log, reads, changes := leaky(t)
	many := strings.TrimSuffix(strings.Repeat(`"0-1",`, 1001), ",")
	for name, test := range map[string]struct {
		path, user, body string
		status           int
		says             string
	}{
		"a stranger":                      {changes, "stranger", redactSecret, 403, "entrypointer-log-deletion"},
		"the owner of another namespace":  {"stranger/logs/" + path.Base(reads), "stranger", redactSecret, 404, "no such stream"},
		"a stream that there isn't":       {"tenant/logs/0123456789abcdef0123456789abcdef", "tenant", redactSecret, 404, "no such stream"},
		"no ranges":                       {changes, "tenant", `{"kind":"DeleteOptions"}`, 400, "name the bytes"},
		"no body":                         {changes, "tenant", "", 400, "name the bytes"},
		"ranges of a pod":                 {"tenant/logs/a", "tenant", redactSecret, 400, "use its ID"},
		"no numbers":                      {changes, "tenant", `{"ranges":["a-b"]}`, 400, "invalid"},
		"a range that ends before itself": {changes, "tenant", `{"ranges":["6-5"]}`, 400, "invalid"},
		"an endless range":                {changes, "tenant", `{"ranges":["6-"]}`, 400, "invalid"},
		"a number beyond all":             {changes, "tenant", `{"ranges":["6-1152921504606846976"]}`, 400, "invalid"},
		"too many":                        {changes, "tenant", `{"ranges":[` + many + `]}`, 400, "1000 at most"},
		"a long body":                     {changes, "tenant", `{"ranges":["` + strings.Repeat("0", maxDeletion) + `"]}`, 413, "too long"},
		"what hasn't come":                {changes, "tenant", `{"ranges":["6-28"]}`, 409, "doesn't have all of these bytes"},
		"another pod's UID":               {changes, "tenant", `{"preconditions":{"uid":"another"},"ranges":["6-21"]}`, 404, "no such stream"},
	} {
		got := s.changes(0, http.MethodDelete, test.path, test.user, test.body)
		require.Equal(t, test.status, got.status, "%s: %s", name, got.body)
		require.Contains(t, got.body, test.says, name)
	}
	require.Contains(t, log.String(), "Logs couldn't be deleted")
	require.Contains(t, s.text(reads), "hunter2")
	require.NotContains(t, log.String(), "Logs were deleted")
}

func TestBytesOfHeldLogsAreNotDeleted(t *testing.T) {
	s, _, reads, changes := leaky(t)
	require.Equal(t, http.StatusOK, s.changes(0, http.MethodPost, "tenant/logs/a/hold", "tenant", "").status)
	got := s.changes(1, http.MethodDelete, changes, "tenant", redactSecret)
	require.Equal(t, http.StatusConflict, got.status)
	require.Contains(t, got.body, "release them first")
	require.Contains(t, s.text(reads), "hunter2")
}

func TestTheOwnerOfALaterNamespaceDeletesNoBytesOfTheFormer(t *testing.T) {
	s, _, _, changes := leaky(t)
	s.who.namespace = Namespace{UID: "uid-2", Created: time.Now()}
	require.Equal(t, http.StatusNotFound, s.changes(0, http.MethodDelete, changes, "tenant", redactSecret).status)
	require.Equal(t, http.StatusOK, s.changes(0, http.MethodDelete, changes, "everywhere", redactSecret).status)
}

// A slow bucket rewrites nothing in time.
type slow struct {
	storage.Bucket
	is atomic.Bool
}

// Create implements storage.Bucket.
func (b *slow) Create(ctx context.Context, key string, content []byte) error {
	if b.is.Load() && strings.Contains(key, "/data/") {
		return context.DeadlineExceeded
	}
	return b.Bucket.Create(ctx, key, content)
}

func TestADeletionOfBytesThatFailsIsRepeated(t *testing.T) {
	s := serve(t, 0)
	full := &fillable{Bucket: storagetest.OpenFiles(t, s.directory)}
	late := &slow{Bucket: full}
	store, err := streams.Open(t.Context(), late)
	require.NoError(t, err)
	server := New(store, s.who, slog.New(slog.DiscardHandler))
	server.Permit(deleters{})
	s.servers, s.replicas = append(s.servers, server), append(s.replicas, httptest.NewServer(server.Handler()))
	t.Cleanup(s.replicas[0].Close)
	reads := s.print("token-of-a", "stderr", "first\npassword=hunter2\nlast\n")
	changes := "tenant/logs/" + path.Base(reads)

	full.full.Store(true)
	got := s.changes(0, http.MethodDelete, changes, "tenant", redactSecret)
	require.Equal(t, http.StatusInsufficientStorage, got.status, got.body)
	require.Contains(t, s.text(reads), "hunter2")
	full.full.Store(false)
	late.is.Store(true)
	got = s.changes(0, http.MethodDelete, changes, "tenant", redactSecret)
	require.Equal(t, http.StatusServiceUnavailable, got.status, got.body)
	require.NotEmpty(t, got.header.Get("Retry-After"))
	require.Contains(t, got.body, "repeat the request")
	require.NotContains(t, s.text(reads), "hunter2", "it is hidden already")
	late.is.Store(false)
	require.Equal(t, http.StatusOK, s.changes(0, http.MethodDelete, changes, "tenant", redactSecret).status)
}
