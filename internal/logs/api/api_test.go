// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/logs/streams/streamstest"
	"github.com/entrypointer/entrypointer/internal/logs/times"
	"github.com/entrypointer/entrypointer/pkg/tenants"
)

// fakeAuthenticator authenticates pods and users, in the place of the API server.
type fakeAuthenticator struct {
	unreachable bool
	deleted     bool   // what a review says of the pods
	onlyPod     string // whose logs may be read, "" for all
	namespace   Namespace
	noNamespace error
}

var pods = map[string]Pod{
	"token-of-a": {Namespace: "tenant", NamespaceUID: "uid-1", Name: "a", UID: "uid-a"},
	"token-of-b": {Namespace: "tenant", NamespaceUID: "uid-1", Name: "b", UID: "uid-b"},
	// A pod of the next namespace with the same name, and one whose namespace isn't known.
	"token-of-next":    {Namespace: "tenant", NamespaceUID: "uid-2", Name: "a", UID: "uid-next"},
	"token-of-unknown": {Namespace: "tenant", Name: "a", UID: "uid-unknown"},
}

// Writer implements Authenticator.
func (e *fakeAuthenticator) Writer(_ context.Context, token string) (Pod, error) {
	if e.unreachable {
		return Pod{}, fmt.Errorf("asking the API server: %w", io.ErrUnexpectedEOF)
	}
	pod, known := pods[token]
	if !known {
		return Pod{}, ErrUnauthenticated
	}
	return pod, nil
}

// Beginner implements Authenticator.
func (e *fakeAuthenticator) Beginner(ctx context.Context, token string) (Pod, error) {
	if e.deleted {
		return Pod{}, ErrUnauthenticated
	}
	return e.Writer(ctx, token)
}

// Reader implements Authenticator.
func (e *fakeAuthenticator) Reader(_ context.Context, token string) (User, error) {
	if user, known := strings.CutPrefix(token, "token-of-user-"); known {
		return User{Name: user}, nil
	}
	return User{}, ErrUnauthenticated
}

// Namespace implements Authenticator.
func (e *fakeAuthenticator) Namespace(context.Context, string) (Namespace, error) {
	return e.namespace, e.noNamespace
}

// MayRead implements Authenticator.
func (e *fakeAuthenticator) MayRead(_ context.Context, user User, namespace, pod string) error {
	if user.Name == "everywhere" {
		return nil
	}
	if user.Name != namespace || e.onlyPod != "" && pod != e.onlyPod {
		return ErrForbidden
	}
	return nil
}

// A service is one or more replicas on one directory.
type service struct {
	t        *testing.T
	who      *fakeAuthenticator
	servers  []*Server
	replicas []*httptest.Server
	next     int
	client   *http.Client

	directory string
}

func serve(t *testing.T, replicas int) *service {
	t.Helper()
	s := &service{t: t, who: &fakeAuthenticator{namespace: Namespace{UID: "uid-1"}}, client: &http.Client{Transport: &asDescribed{t, description(t)}}, directory: t.TempDir()}
	for range replicas {
		store := streamstest.Open(t, s.directory)
		server := New(store, s.who, slog.New(slog.DiscardHandler))
		s.servers = append(s.servers, server)
		s.replicas = append(s.replicas, httptest.NewServer(server.Handler()))
		t.Cleanup(s.replicas[len(s.replicas)-1].Close)
	}
	return s
}

// request returns a request to the next replica in turn.
func (s *service) request(method, path, token, body string, headers ...string) *http.Request {
	s.t.Helper()
	s.next++
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.replicas[s.next%len(s.replicas)].URL+path, strings.NewReader(body))
	require.NoError(s.t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	switch {
	case strings.HasSuffix(path, "/data") && method != http.MethodGet:
		r.Header.Set("Content-Type", "application/octet-stream")
	case method == http.MethodPost:
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// received is a response with its body.
type received struct {
	status int
	header http.Header
	body   string
}

func (s *service) do(method, path, token, body string, headers ...string) received {
	s.t.Helper()
	response, err := s.client.Do(s.request(method, path, token, body, headers...))
	require.NoError(s.t, err)
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return received{response.StatusCode, response.Header, string(all)}
}

func (s *service) accepted(method, path, body string, headers ...string) {
	s.t.Helper()
	got := s.do(method, path, "token-of-a", body, headers...)
	require.Equal(s.t, http.StatusAccepted, got.status, got.body)
}

// stream creates a stream, and returns its path.
func (s *service) stream(name string) (path string) {
	s.t.Helper()
	got := s.do(http.MethodPost, "/logs", "token-of-a", fmt.Sprintf(`{"name":%q}`, name))
	require.Equal(s.t, http.StatusOK, got.status, got.body)
	var answer struct{ ID, Name string }
	require.NoError(s.t, json.Unmarshal([]byte(got.body), &answer))
	require.Equal(s.t, name, answer.Name)
	return "/logs/" + answer.ID
}

func (s *service) text(path string) string {
	s.t.Helper()
	got := s.do(http.MethodGet, path+"/data", "token-of-user-tenant", "")
	require.Equal(s.t, http.StatusOK, got.status, got.body)
	return got.body
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	return zippedWith(t, nil, text)
}

// zippedWith compresses a text, with an extra field in the header.
func zippedWith(t *testing.T, extra []byte, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Extra = extra
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

// As the RFC has them, by one replica and by three.
func TestTheExamplesOfTheRFCWork(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		s := serve(t, replicas)
		stdout, stderr := s.stream("stdout"), s.stream("stderr")
		require.NotEqual(t, stdout, stderr)
		require.NotContains(t, stdout, "stdout")

		s.accepted(http.MethodPost, stdout+"/data", "hello ")
		s.accepted(http.MethodPost, stdout+"/data", zipped(t, "world\n"), "Content-Encoding", "gzip")
		require.Equal(t, "hello world\n", s.text(stdout))

		s.accepted(http.MethodPatch, stderr+"/data", "third", "Content-Range", "bytes 11-15/*")
		s.accepted(http.MethodPatch, stderr+"/data", zipped(t, "first"), "Content-Range", "bytes 0-4/*", "Content-Encoding", "gzip")
		s.accepted(http.MethodPost, stderr+"/markers", `{"range": "bytes 5-10/*", "markers": ["dropped"]}`)
		require.Equal(t, "first\n[entrypointer: 6 bytes were dropped]\nthird", s.text(stderr))
	}
}

func TestARequestCanBeRepeated(t *testing.T) {
	s := serve(t, 3)
	path := s.stream("stdout")
	for range 4 {
		require.Equal(t, path, s.stream("stdout"))
		s.accepted(http.MethodPatch, path+"/data", "hello", "Content-Range", "bytes 0-4/*")
		s.accepted(http.MethodPost, path+"/markers", `{"range":"bytes 5-5/*","markers":["dropped"]}`)
		s.accepted(http.MethodPatch, path+"/data", "world", "Content-Range", "bytes 6-10/11")
		s.accepted(http.MethodPatch, path+"/data", "", "Content-Range", "bytes */11")
	}
	got := s.do(http.MethodGet, path, "token-of-user-tenant", "")
	require.JSONEq(t, fmt.Sprintf(`{"id":%q,"name":"stdout","namespace":"tenant","pod":"a","container":"",
		"stored":["0-4","6-10"],"dropped":["5-5"],"deleted":[],"missing":[],"total":11,"complete":true}`, strings.TrimPrefix(path, "/logs/")), got.body)
}

func TestTwoStartsOfAContainerHaveSeparateStreams(t *testing.T) {
	s := serve(t, 1)
	paths := map[string]bool{}
	for _, body := range []string{
		`{"name":"stdout"}`, `{"name":"stdout","container":"x"}`, `{"name":"stdout","container":"x","start":"1"}`, `{"name":"stdout","container":"x","start":"2"}`,
	} {
		paths[s.do(http.MethodPost, "/logs", "token-of-a", body).body] = true
	}
	require.Len(t, paths, 4)
}

func TestAPodWritesItsOwnStreamsOnly(t *testing.T) {
	s := serve(t, 1)
	path := s.stream("stdout")
	for _, write := range []struct{ method, path, body string }{
		{http.MethodPost, path + "/data", "x"},
		{http.MethodPatch, path + "/data", "x"},
		{http.MethodPost, path + "/markers", `{"range":"bytes 0-0/*","markers":["dropped"]}`},
	} {
		other := s.do(write.method, write.path, "token-of-b", write.body, "Content-Range", "bytes 0-0/*")
		none := s.do(write.method, strings.Replace(write.path, path, "/logs/"+strings.Repeat("0", 32), 1), "token-of-b", write.body, "Content-Range", "bytes 0-0/*")
		require.Equal(t, http.StatusNotFound, other.status)
		require.Equal(t, none.body, other.body, "the response doesn't reveal that the stream exists")
		for _, token := range []string{"", "token-of-user-tenant", "x"} {
			got := s.do(write.method, write.path, token, write.body, "Content-Range", "bytes 0-0/*")
			require.Equal(t, http.StatusUnauthorized, got.status)
			require.Equal(t, "Bearer", got.header.Get("WWW-Authenticate"))
		}
	}
	require.Empty(t, s.text(path))
}

func TestReadingNeedsPermissionForThePodsLogs(t *testing.T) {
	s := serve(t, 1)
	path := s.stream("stdout")
	for token, want := range map[string]int{
		"": http.StatusUnauthorized, "x": http.StatusUnauthorized, "token-of-a": http.StatusUnauthorized,
		"token-of-user-stranger": http.StatusForbidden, "token-of-user-tenant": http.StatusOK,
	} {
		require.Equal(t, want, s.do(http.MethodGet, path, token, "").status, token)
		require.Equal(t, want, s.do(http.MethodGet, path+"/data", token, "").status, token)
	}
	none := "/logs/" + strings.Repeat("0", 32)
	require.Equal(t, http.StatusUnauthorized, s.do(http.MethodGet, none, "x", "").status, "as where there is one")
	require.Equal(t, http.StatusNotFound, s.do(http.MethodGet, none, "token-of-user-tenant", "").status)
}

func TestInvalidRequestsAreExplained(t *testing.T) {
	s := serve(t, 1)
	path := s.stream("stdout")
	s.accepted(http.MethodPatch, s.stream("ended")+"/data", "x", "Content-Range", "bytes 0-0/1")
	long := strings.Repeat("x", streams.MaxWrite+1)
	for name, test := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		says               string
	}{
		"no JSON":              {http.MethodPost, "/logs", "stdout", nil, 400, "as JSON"},
		"no name":              {http.MethodPost, "/logs", "{}", nil, 400, `"name" is missing`},
		"a long name":          {http.MethodPost, "/logs", `{"name":"` + strings.Repeat("x", 254) + `"}`, nil, 400, "at most 253 bytes"},
		"a long document":      {http.MethodPost, "/logs", `{"name":"` + strings.Repeat("x", maxDocument) + `"}`, nil, 413, "too long"},
		"no such stream":       {http.MethodPost, "/logs/x/data", "x", nil, 404, "POST /logs"},
		"another type":         {http.MethodPost, path + "/data", "x", []string{"Content-Type", "text/plain"}, 415, "application/octet-stream"},
		"another encoding":     {http.MethodPost, path + "/data", "x", []string{"Content-Encoding", "zstd"}, 415, "use gzip or identity"},
		"no gzip":              {http.MethodPost, path + "/data", "x", []string{"Content-Encoding", "gzip"}, 400, "reading the body"},
		"too much":             {http.MethodPost, path + "/data", strings.Repeat("x", maxAppend+1), nil, 413, "too long"},
		"a bomb":               {http.MethodPost, path + "/data", zipped(t, strings.Repeat("x", maxAppend+1)), []string{"Content-Encoding", "gzip"}, 413, "too long"},
		"no range":             {http.MethodPatch, path + "/data", "x", nil, 400, "bytes 0-5/*"},
		"another unit":         {http.MethodPatch, path + "/data", "x", []string{"Content-Range", "lines 0-0/*"}, 400, "bytes 0-5/*"},
		"less than it says":    {http.MethodPatch, path + "/data", "x", []string{"Content-Range", "bytes 0-1/*"}, 400, "the body has 1 bytes, but its Content-Range has 2"},
		"more than it says":    {http.MethodPatch, path + "/data", "xxx", []string{"Content-Range", "bytes 0-1/*"}, 413, "too long"},
		"a range too long":     {http.MethodPatch, path + "/data", long, []string{"Content-Range", fmt.Sprintf("bytes 0-%d/*", len(long)-1)}, 413, "in parts"},
		"beyond all":           {http.MethodPatch, path + "/data", "x", []string{"Content-Range", "bytes 9223372036854775806-9223372036854775806/*"}, 400, "bytes 0-5/*"},
		"no marker":            {http.MethodPost, path + "/markers", `{"range":"bytes 0-1/*"}`, nil, 400, `use ["dropped"]`},
		"an unknown marker":    {http.MethodPost, path + "/markers", `{"range":"bytes 0-1/*","markers":["x"]}`, nil, 400, `use ["dropped"]`},
		"a marker of no range": {http.MethodPost, path + "/markers", `{"range":"0-1","markers":["dropped"]}`, nil, 400, "bytes 0-5/*"},
		"after its end":        {http.MethodPatch, s.stream("ended") + "/data", "x", []string{"Content-Range", "bytes 1-1/*"}, 409, "ends before"},
		"two ends":             {http.MethodPatch, s.stream("ended") + "/data", "", []string{"Content-Range", "bytes */2"}, 409, "another length"},
	} {
		got := s.do(test.method, test.path, "token-of-a", test.body, test.headers...)
		require.Equal(t, test.status, got.status, "%s: %s", name, got.body)
		require.Contains(t, strings.ReplaceAll(got.body, `\"`, `"`), test.says, name)
		require.Empty(t, got.header.Get("Retry-After"), name)
	}
	for query, says := range map[string]string{"?from=x": "a number of bytes", "?from=-1": "a number of bytes", "?follow=yes": "true or false"} {
		got := s.do(http.MethodGet, path+"/data"+query, "token-of-user-tenant", "")
		require.Equal(t, http.StatusBadRequest, got.status, query)
		require.Contains(t, got.body, says)
	}
}

func TestAWriteBeyondTheMemoryIsAskedToRetry(t *testing.T) {
	s := serve(t, 1)
	path := s.stream("stdout")
	s.servers[0].memory = tenants.NewShares(maxBodyMemory, maxBodyMemory, maxBodyMemory)
	require.True(t, s.servers[0].memory.TryAcquire(maxBodyMemory, "others", "other"))
	got := s.do(http.MethodPatch, path+"/data", "token-of-a", "x", "Content-Range", "bytes 0-0/*")
	require.Equal(t, http.StatusTooManyRequests, got.status)
	require.Equal(t, "1", got.header.Get("Retry-After"))
	s.accepted(http.MethodPost, path+"/markers", `{"range":"bytes 0-0/*","markers":["dropped"]}`)
	s.servers[0].memory.Release(maxBodyMemory, "others", "other")
	s.accepted(http.MethodPatch, path+"/data", "y", "Content-Range", "bytes 1-1/*")
	s.requireAllReleased()
}

// otherStream returns the path of a stream of another pod of the same namespace.
func (s *service) otherStream() string {
	s.t.Helper()
	created := s.do(http.MethodPost, "/logs", "token-of-b", `{"name":"stdout"}`)
	var answer struct{ ID string }
	require.NoError(s.t, json.Unmarshal([]byte(created.body), &answer))
	return "/logs/" + answer.ID
}

// slowly sends the beginning of bodies, and never their ends. It returns the statuses of
// the responses once all have come.
func (s *service) slowly(path, beginning string, count int) (statuses func() []int) {
	var slow errgroup.Group
	got := make(chan int, count)
	for range count {
		reads, writes := io.Pipe()
		r := s.request(http.MethodPost, path+"/data", "token-of-a", "")
		r.Body, r.ContentLength = reads, 200_000
		slow.Go(func() error {
			defer writes.Close()
			go func() { _, _ = io.WriteString(writes, beginning) }()
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			got <- response.StatusCode
			return response.Body.Close()
		})
	}
	return func() (list []int) {
		require.NoError(s.t, slow.Wait(), "none waits for good")
		close(got)
		for status := range got {
			list = append(list, status)
		}
		return list
	}
}

func TestAPodThatSendsSlowlyBlocksNoOtherPod(t *testing.T) {
	s := serve(t, 1)
	s.servers[0].timing.body = time.Second
	path, other := s.stream("stdout"), s.otherStream()
	statuses := s.slowly(path, strings.Repeat("x", freeBytes+1), 80)
	require.Eventually(t, func() bool { return isFull(s.servers[0].memory, "tenant", "uid-a") }, 10*time.Second, time.Millisecond)
	require.False(t, isFull(s.servers[0].memory, "tenant", "uid-b"))
	got := s.do(http.MethodPatch, other+"/data", "token-of-b", "x", "Content-Range", "bytes 0-0/*")
	require.Equal(t, http.StatusAccepted, got.status)
	for _, status := range statuses() {
		require.Contains(t, []int{http.StatusTooManyRequests, http.StatusBadRequest}, status)
	}
	s.requireAllReleased()
}

func TestBodiesThatDoNotComeTakeNoMemory(t *testing.T) {
	s := serve(t, 1)
	s.servers[0].timing.body = time.Second
	path, other := s.stream("stdout"), s.otherStream()
	statuses := s.slowly(path, "x", 128)
	for range 20 {
		got := s.do(http.MethodPatch, other+"/data", "token-of-b", "x", "Content-Range", "bytes 0-0/*")
		require.Equal(t, http.StatusAccepted, got.status)
		require.LessOrEqual(t, s.servers[0].memory.InUse(), int64(minBodyMemory))
		time.Sleep(20 * time.Millisecond)
	}
	for _, status := range statuses() {
		require.Equal(t, http.StatusBadRequest, status)
	}
	s.requireAllReleased()
}

// net/http reads the rest of a short body before it answers.
func TestABodyThatDoesNotComeHoldsNoConnection(t *testing.T) {
	s := serve(t, 1)
	s.servers[0].timing.body = 100 * time.Millisecond
	path := s.stream("stdout")
	for _, line := range []string{"POST /nowhere", "GET " + path, "DELETE " + path, "PATCH " + path + "/data", "POST /logs"} {
		connection, err := net.Dial("tcp", strings.TrimPrefix(s.replicas[0].URL, "http://"))
		require.NoError(t, err)
		_, err = io.WriteString(connection, line+" HTTP/1.1\r\nHost: logs\r\nAuthorization: Bearer token-of-a\r\nContent-Length: 100\r\n\r\nx")
		require.NoError(t, err)
		require.NoError(t, connection.SetReadDeadline(time.Now().Add(time.Minute)))
		answer, err := io.ReadAll(connection)
		require.NoError(t, err, line)
		require.Contains(t, string(answer), "HTTP/1.1 4", line)
		require.NoError(t, connection.Close())
	}
}

func TestARequestThatIsCutShortIsNotAccepted(t *testing.T) {
	s := serve(t, 1)
	path := s.stream("stdout")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPatch, path+"/data", strings.NewReader("x"))
	r.Header.Set("Authorization", "Bearer token-of-a")
	r.Header.Set("Content-Range", "bytes 0-0/*")
	answer := &deadlines{httptest.NewRecorder()}
	s.servers[0].Handler().ServeHTTP(answer, r)
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
}

// deadlines accepts deadlines, as a connection does.
type deadlines struct{ *httptest.ResponseRecorder }

func (*deadlines) SetReadDeadline(time.Time) error  { return nil }
func (*deadlines) SetWriteDeadline(time.Time) error { return nil }

func TestReadersHaveABound(t *testing.T) {
	s := serve(t, 1)
	path := s.stream("stdout")
	s.servers[0].readers = tenants.NewShares(0, 0, 0)
	for _, read := range []string{path, path + "/data"} {
		got := s.do(http.MethodGet, read, "token-of-user-tenant", "")
		require.Equal(t, http.StatusTooManyRequests, got.status)
		require.Equal(t, "1", got.header.Get("Retry-After"))
	}
}

func TestAUserAndANamespaceLeaveReadersToOthers(t *testing.T) {
	s := serve(t, 1)
	server := s.servers[0]
	read := func(namespace, user string, times int) error {
		for range times {
			if _, err := server.enter(namespace, User{Name: user}); err != nil {
				return err
			}
		}
		return nil
	}
	require.NoError(t, read("tenant", "jane", maxReadersUser))
	require.Error(t, read("tenant", "jane", 1), "the user's share is used up")
	require.Error(t, read("other", "jane", 1), "in all namespaces")
	require.NoError(t, read("tenant", "tenant", maxReadersUser))
	require.Error(t, read("tenant", "john", 1), "the namespace's share is used up")
	got := s.do(http.MethodGet, s.stream("stdout"), "token-of-user-tenant", "")
	require.Equal(t, http.StatusTooManyRequests, got.status)
	require.NoError(t, read("other", "john", maxReadersUser))
}

func TestHEADFollowsNothing(t *testing.T) {
	s := serve(t, 1)
	path := s.stream("stdout")
	response, err := http.DefaultClient.Do(s.request(http.MethodHead, path+"/data?follow=true", "token-of-user-tenant", ""))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
}

// The server doesn't see the end of this connection, because unread data comes before it.
func TestADisconnectedFollowerIsNoticed(t *testing.T) {
	for accept, cut := range map[string]func(*timing){
		eventStreamType: func(t *timing) { t.beat = 20 * time.Millisecond },
		"*/*":           func(t *timing) { t.beat, t.silence = 10*time.Millisecond, 100*time.Millisecond },
	} {
		s := serve(t, 1)
		s.servers[0].timing.follow = 5 * time.Millisecond
		cut(&s.servers[0].timing)
		r := s.request(http.MethodGet, s.stream("stdout")+"/data?follow=true", "token-of-user-tenant", "", "Accept", accept)
		connection, err := net.Dial("tcp", r.URL.Host)
		require.NoError(t, err)
		require.NoError(t, r.Write(connection))
		_, err = connection.Read(make([]byte, 1))
		require.NoError(t, err)
		_, err = connection.Write([]byte("G"))
		require.NoError(t, err)
		require.NoError(t, connection.Close())
		require.Eventually(t, func() bool { return s.servers[0].readers.InUse() == 0 }, 10*time.Second, 5*time.Millisecond, accept)
	}
}

// age makes all objects older.
func (s *service) age(by time.Duration) {
	s.t.Helper()
	require.NoError(s.t, filepath.WalkDir(s.directory, func(path string, entry fs.DirEntry, err error) error {
		then := time.Now().Add(-by)
		return errors.Join(err, os.Chtimes(path, then, then))
	}))
}

func TestClientsAreAskedToRetryWhileTheAPIServerIsDown(t *testing.T) {
	s := serve(t, 1)
	s.who.unreachable = true
	got := s.do(http.MethodPost, "/logs", "token-of-a", `{"name":"stdout"}`)
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "1", got.header.Get("Retry-After"))
	require.NotContains(t, got.body, "API server")
}

func TestADeletedPodBeginsNoStream(t *testing.T) {
	s := serve(t, 1)
	path := s.stream("stdout")
	s.who.deleted = true
	require.Equal(t, http.StatusUnauthorized, s.do(http.MethodPost, "/logs", "token-of-a", `{"name":"stderr"}`).status)
	s.accepted(http.MethodPatch, path+"/data", "last words", "Content-Range", "bytes 0-9/10")
}

func TestAStreamIsFollowedAtAnyReplica(t *testing.T) {
	s := serve(t, 3)
	path := s.stream("stdout")
	r := s.request(http.MethodGet, path+"/data?follow=true", "token-of-user-tenant", "")
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	for i := range 5 {
		s.accepted(http.MethodPatch, path+"/data", fmt.Sprint(i), "Content-Range", fmt.Sprintf("bytes %d-%d/*", i, i))
		got := make([]byte, 1)
		_, err := io.ReadFull(response.Body, got)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i), string(got))
	}
	s.accepted(http.MethodPatch, path+"/data", "", "Content-Range", "bytes */5")
	rest, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Empty(t, rest)
}

func TestProgramsReadEventsAndResume(t *testing.T) {
	s := serve(t, 2)
	path := s.stream("stdout")
	s.accepted(http.MethodPatch, path+"/data", zippedWith(t, times.Encode(0, []times.Mark{{At: 0, Time: 1000}, {At: 1, Time: 1005}}), "ab"), "Content-Range", "bytes 0-1/*", "Content-Encoding", "gzip")
	s.accepted(http.MethodPost, path+"/markers", `{"range":"bytes 2-4/*","markers":["dropped"]}`)
	s.accepted(http.MethodPatch, path+"/data", zippedWith(t, times.Encode(6, []times.Mark{{At: 6, Time: 2000}}), "f"), "Content-Range", "bytes 6-6/7", "Content-Encoding", "gzip")
	s.age(time.Minute)
	want := []string{
		"event: data\nid: 2\ndata: {\"data\":\"YWI=\",\"from\":0,\"times\":[[0,1000],[1,1005]],\"to\":2}\n\n",
		"event: dropped\nid: 5\ndata: {\"from\":2,\"to\":5}\n\n",
		"event: missing\nid: 6\ndata: {\"from\":5,\"to\":6}\n\n",
		"event: data\nid: 7\ndata: {\"data\":\"Zg==\",\"from\":6,\"times\":[[6,2000]],\"to\":7}\n\n",
		"event: end\ndata: {}\n\n",
	}
	for i, last := range []string{"", "2", "5", "6", "7"} {
		got := s.do(http.MethodGet, path+"/data", "token-of-user-tenant", "", "Accept", eventStreamType, "Last-Event-ID", last)
		require.Equal(t, eventStreamType, got.header.Get("Content-Type"))
		require.Equal(t, strings.Join(want[i:], ""), got.body)
	}
}

// Invalid times don't lose bytes.
func TestBytesWithoutTimesHaveTheTimeOfStoring(t *testing.T) {
	s := serve(t, 1)
	for name, body := range map[string]string{
		"no compression": "hello", "no field": zipped(t, "hello"), "another's field": zippedWith(t, []byte("zz\x01\x00a"), "hello"),
		"garbage": zippedWith(t, bytes.Repeat([]byte("ep\xff\xff"), 1<<14-1), "hello"), "a mark behind the last byte": zippedWith(t, times.Encode(0, []times.Mark{{Time: 1}, {At: 5, Time: 2}}), "hello"),
		"of the second member": zipped(t, "hel") + zippedWith(t, times.Encode(3, []times.Mark{{At: 3, Time: 1}}), "lo"),
	} {
		t.Run(name, func(t *testing.T) {
			path := s.stream(name)
			headers := []string{"Content-Range", "bytes 0-4/*", "Content-Encoding", "gzip"}
			if body == "hello" {
				headers = headers[:2]
			}
			before := time.Now().Add(-time.Second).UnixMilli() // as fine as the storage's clock
			s.accepted(http.MethodPatch, path+"/data", body, headers...)
			got := s.do(http.MethodGet, path+"/data", "token-of-user-tenant", "", "Accept", eventStreamType)
			_, document, _ := strings.Cut(got.body, "data: {")
			var event struct {
				Data  []byte
				Times [][2]int64
			}
			require.NoError(t, json.Unmarshal([]byte("{"+document), &event), got.body)
			require.Equal(t, "hello", string(event.Data))
			require.Len(t, event.Times, 1)
			require.Zero(t, event.Times[0][0])
			require.GreaterOrEqual(t, event.Times[0][1], before)
			require.LessOrEqual(t, event.Times[0][1], time.Now().Add(time.Second).UnixMilli())
		})
	}
}

// A proxy sends requests twice and late, and kills replicas after they have written and
// before they respond.
func TestFaultsOnTheWayLoseNoByte(t *testing.T) {
	s := serve(t, 3)
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 0))
		path := s.stream(fmt.Sprint("stdout", seed))
		data := strings.Repeat("All work and no play makes Jack a dull boy.\n", 1+random.IntN(50))
		var sends []func()
		for from := 0; from < len(data); {
			to := min(len(data), from+1+random.IntN(300))
			at := []string{"Content-Range", fmt.Sprintf("bytes %d-%d/*", from, to-1)}
			body := data[from:to]
			if random.IntN(2) == 0 {
				body, at = zipped(t, body), append(at, "Content-Encoding", "gzip")
			}
			for range 1 + random.IntN(3) {
				sends = append(sends, func() { s.accepted(http.MethodPatch, path+"/data", body, at...) })
			}
			from = to - random.IntN(min(2, to-from))
		}
		random.Shuffle(len(sends), func(i, j int) { sends[i], sends[j] = sends[j], sends[i] })
		for _, send := range sends {
			send()
		}
		s.accepted(http.MethodPatch, path+"/data", "", "Content-Range", fmt.Sprintf("bytes */%d", len(data)))
		require.Equal(t, data, s.text(path))
	}
}

func TestADisconnectEndsFollowing(t *testing.T) {
	s := serve(t, 1)
	path := s.stream("stdout")
	ctx, cancel := context.WithCancel(t.Context())
	response, err := http.DefaultClient.Do(s.request(http.MethodGet, path+"/data?follow=true", "token-of-user-tenant", "").WithContext(ctx))
	require.NoError(t, err)
	defer response.Body.Close()
	cancel()
	closed := make(chan struct{})
	go func() {
		s.replicas[0].Close() // waits for requests
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Fatal("the request is still being answered")
	}
}

func FuzzContentRange(f *testing.F) {
	for _, seed := range []string{"bytes 0-5/*", "bytes 5-5/6", "bytes */6", "bytes */*", "bytes -1-5/*", "bytes 0-9223372036854775807/*", "bytes 5-4/*"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		c, err := parseContentRange(value)
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, c.From, int64(0))
		require.GreaterOrEqual(t, c.To, c.From)
		total, where := "*", "*"
		if c.isLast {
			require.GreaterOrEqual(t, c.total, c.To)
			total = fmt.Sprint(c.total)
		}
		if c.Len() > 0 {
			where = fmt.Sprintf("%d-%d", c.From, c.To-1)
		}
		again, err := parseContentRange("bytes " + where + "/" + total)
		require.NoError(t, err)
		require.Equal(t, c, again)
	})
}

// requireAllReleased waits until no request holds memory.
func (s *service) requireAllReleased() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		return s.servers[0].memory.InUse() == 0 && s.servers[0].streams.HeldBytes() == 0
	}, 10*time.Second, time.Millisecond)
}

// isFull reports whether a pod has no memory for another body.
func isFull(b *tenants.Shares, namespace, pod string) bool {
	if !b.TryAcquire(minBodyMemory, namespace, pod) {
		return true
	}
	b.Release(minBodyMemory, namespace, pod)
	return false
}
