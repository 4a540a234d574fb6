// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ofBuild = "/logs?namespace=tenant&label=tekton.dev/taskRun=build"

// streamOf creates a stream of a pod that prints its token, and returns its path.
func (s *service) streamOf(token string) (path string) {
	s.t.Helper()
	created := s.do(http.MethodPost, "/logs", token, `{"name":"stdout","labels":{"tekton.dev/taskRun":"build"}}`)
	require.Equal(s.t, http.StatusOK, created.status, created.body)
	var answer struct{ ID string }
	require.NoError(s.t, json.Unmarshal([]byte(created.body), &answer))
	path = "/logs/" + answer.ID
	written := s.do(http.MethodPost, path+"/data", token, token)
	require.Equal(s.t, http.StatusAccepted, written.status, written.body)
	return path
}

// requireReads requires that a user can list and read exactly some of the streams, in
// both ways of reading.
func (s *service) requireReads(user string, want map[string]bool) {
	s.t.Helper()
	for _, list := range []string{ofA, ofBuild} {
		own := s.do(http.MethodGet, list, "token-of-user-"+user, "")
		require.Equal(s.t, http.StatusOK, own.status, own.body)
		aggregated := s.aggregated(&proxy{}, "/namespaces/tenant"+list, user)
		require.Equal(s.t, own.body, aggregated.body)
		for path, may := range want {
			require.Equal(s.t, may, strings.Contains(own.body, strings.TrimPrefix(path, "/logs/")), "%s lists %s: %s", user, path, own.body)
		}
	}
	for path, may := range want {
		for _, kind := range []string{"", "/data"} {
			own := s.do(http.MethodGet, path+kind, "token-of-user-"+user, "")
			aggregated := s.aggregated(&proxy{}, "/namespaces/tenant"+path+kind, user)
			require.Equal(s.t, own.status, aggregated.status)
			if may {
				require.Equal(s.t, http.StatusOK, own.status, "%s reads %s: %s", user, path+kind, own.body)
				continue
			}
			require.Equal(s.t, http.StatusForbidden, own.status, "%s reads %s: %s", user, path+kind, own.body)
			require.Contains(s.t, own.body, "in all namespaces")
			require.Contains(s.t, aggregated.body, `"reason":"Forbidden"`)
		}
	}
}

func TestTheOwnerOfANamespaceThatWasMadeAgainReadsNothingOfTheFormerOne(t *testing.T) {
	s := serve(t, 2)
	former := s.streamOf("token-of-a")
	s.requireReads("tenant", map[string]bool{former: true})
	s.who.namespace = Namespace{UID: "uid-2", Created: time.Now()}
	now := s.streamOf("token-of-next")
	s.requireReads("tenant", map[string]bool{former: false, now: true})
	s.requireReads("everywhere", map[string]bool{former: true, now: true})
	require.Equal(t, "token-of-a", s.do(http.MethodGet, former+"/data", "token-of-user-everywhere", "").body)
}

func TestLogsOfANamespaceThatIsGoneAreReadByUsersWhoMayReadAll(t *testing.T) {
	s := serve(t, 1)
	former := s.streamOf("token-of-a")
	s.who.namespace = Namespace{}
	s.requireReads("tenant", map[string]bool{former: false})
	s.requireReads("everywhere", map[string]bool{former: true})
}

// Earlier versions have recorded no UID of a namespace.
func TestAStreamWithoutANamespaceUIDBelongsToTheNamespaceOfItsTime(t *testing.T) {
	s := serve(t, 1)
	s.who.namespace = Namespace{UID: "uid-1", Created: time.Now().Add(-time.Hour)}
	unknown := s.streamOf("token-of-unknown")
	s.requireReads("tenant", map[string]bool{unknown: true})
	s.who.namespace = Namespace{UID: "uid-2", Created: time.Now().Add(time.Minute)}
	s.requireReads("tenant", map[string]bool{unknown: false})
	s.requireReads("everywhere", map[string]bool{unknown: true})
	s.who.namespace = Namespace{}
	s.requireReads("tenant", map[string]bool{unknown: false})
}

func TestAPodOfAFormerNamespaceWritesNothingThatTheNextOwnerReads(t *testing.T) {
	s := serve(t, 1)
	s.who.namespace = Namespace{UID: "uid-2", Created: time.Now()}
	late := s.streamOf("token-of-a") // its token may count for a minute after its deletion
	s.requireReads("tenant", map[string]bool{late: false})
}

func TestReadingWaitsUntilTheNamespaceIsKnownAndWritingDoesNot(t *testing.T) {
	s := serve(t, 1)
	s.who.noNamespace = io.ErrUnexpectedEOF
	path := s.streamOf("token-of-a")
	for _, path := range []string{ofA, path, path + "/data"} {
		got := s.do(http.MethodGet, path, "token-of-user-tenant", "")
		require.Equal(t, http.StatusServiceUnavailable, got.status, got.body)
		require.Equal(t, "1", got.header.Get("Retry-After"))
	}
}
