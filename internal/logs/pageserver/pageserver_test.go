// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pageserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/pageserver"
	"github.com/entrypointer/entrypointer/internal/objects/objectstest"
	"github.com/entrypointer/entrypointer/internal/page/pagetest"
	"github.com/entrypointer/entrypointer/internal/synced"
)

// A cluster is an API server that knows users by their tokens, and whose answers can change. It
// is the Reviewer as well: how that caches answers is tested in internal/logs/identity.
type cluster struct {
	*pagetest.Cluster

	mu        sync.Mutex
	rights    map[string][]string // by token: the namespaces whose logs may be read, "" for all
	uid       string
	down      bool
	asked     []string       // the tokens of requests, one after another
	mayNotAsk []string       // names of users
	askedFor  map[string]int // requests for lines, by token
	held      chan struct{}  // what jane's requests for pods wait for
}

func newCluster() *cluster {
	return &cluster{
		Cluster: pagetest.New(), uid: "first", askedFor: map[string]int{},
		rights: map[string][]string{"token-of-jane": {"team-a"}, "token-of-bob": {"team-a"}, "token-of-mallory": {"team-m"}},
	}
}

func (c *cluster) change(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// ServeHTTP implements the API server.
func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	c.mu.Lock()
	c.asked = append(c.asked, token)
	may, held := slices.Contains(c.rights[token], pagetest.Namespace), c.held
	if may && strings.HasSuffix(r.URL.Path, "/log") {
		c.askedFor[token]++
	}
	c.mu.Unlock()
	if !may {
		objectstest.Refuse(w, http.StatusForbidden, "no such right")
		return
	}
	if held != nil && strings.HasPrefix(token, "token-of-jane") && strings.HasSuffix(r.URL.Path, "/pods") {
		select {
		case <-held:
		case <-r.Context().Done():
		}
	}
	c.Cluster.ServeHTTP(w, r)
}

// Reader implements pageserver.Reviewer. The user of token-of-jane/1 is jane.
func (c *cluster) Reader(_ context.Context, token string) (api.User, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return api.User{}, errors.New("connection refused")
	}
	if _, is := c.rights[token]; !is {
		return api.User{}, api.ErrUnauthenticated
	}
	name, credential, _ := strings.Cut(strings.TrimPrefix(token, "token-of-"), "/")
	return api.User{Name: name, Extra: map[string][]string{"authentication.kubernetes.io/credential-id": {credential}}}, nil
}

// MayRead implements pageserver.Reviewer.
func (c *cluster) MayRead(_ context.Context, user api.User, namespace, _ string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.rights["token-of-"+user.Name], namespace) {
		return api.ErrForbidden
	}
	return nil
}

// MayAsk implements pageserver.Reviewer.
func (c *cluster) MayAsk(_ context.Context, user api.User, _ string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.mayNotAsk, user.Name) {
		return api.ErrForbidden
	}
	return nil
}

// Namespace implements pageserver.Reviewer.
func (c *cluster) Namespace(context.Context, string) (api.Namespace, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return api.Namespace{UID: c.uid}, nil
}

// served returns the page of a cluster, which asks it over the network, and what it logs.
func served(t *testing.T, c *cluster) (http.Handler, *synced.Buffer) {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	logs := &synced.Buffer{}
	pages := pageserver.New(pageserver.Options{
		Config:   &rest.Config{Host: server.URL, BearerToken: "token-of-the-service", Username: "service", Password: "secret"},
		Reviewer: c, Logger: slog.New(slog.NewJSONHandler(logs, nil)), Directory: t.TempDir(), Disk: 64 << 20,
	})
	t.Cleanup(pages.Close)
	return pages, logs
}

// get returns the response to a request with these values of Authorization.
func get(t *testing.T, handler http.Handler, path string, authorization ...string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	request.Header["Authorization"] = authorization
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)
	return response
}

func as(user string) string { return "Bearer token-of-" + user }

const (
	list = "/namespaces/team-a/"
	log  = "/namespaces/team-a/taskrun/release-build/logs/"
	said = "step compile begins"
)

func TestWithoutATokenThatTheAPIServerAcceptsThereIsNoPage(t *testing.T) {
	t.Parallel()
	c := newCluster()
	handler, _ := served(t, c)
	for name, authorization := range map[string][]string{
		"none":               nil,
		"another scheme":     {"Basic dG9rZW4="},
		"no token":           {"Bearer "},
		"two":                {as("jane"), as("bob")},
		"of nobody":          {as("nobody")},
		"that of the server": {"Bearer token-of-the-service"},
	} {
		for _, path := range []string{"/", list, log + "text", "/assets/page.css"} {
			response := get(t, handler, path, authorization...)
			require.Equal(t, http.StatusUnauthorized, response.Code, name)
			require.Equal(t, "Bearer", response.Header().Get("WWW-Authenticate"))
			require.Contains(t, response.Header().Get("Content-Security-Policy"), "default-src 'none'")
			require.Equal(t, "no-store", response.Header().Get("Cache-Control"))
			require.Contains(t, response.Body.String(), "bearer token", name)
		}
	}
	require.Empty(t, c.asked, "the API server is asked for nothing")
	c.down = true
	response := get(t, handler, list, as("jane"))
	require.Equal(t, http.StatusServiceUnavailable, response.Code)
	require.NotEmpty(t, response.Header().Get("Retry-After"))
}

func TestThePageAsksWithTheTokenOfItsUserAlone(t *testing.T) {
	t.Parallel()
	c := newCluster()
	handler, logs := served(t, c)
	for _, path := range []string{list, "/namespaces/team-a/pipelinerun/release/", log + "text"} {
		response := get(t, handler, path, as("jane"))
		require.Equal(t, http.StatusOK, response.Code, path)
		require.NotContains(t, response.Body.String(), "token-of-")
	}
	c.change(func() { require.Equal(t, []string{"token-of-jane"}, slices.Compact(slices.Clone(c.asked))) })
	require.Equal(t, http.StatusForbidden, get(t, handler, list, as("mallory")).Code, "as the API server says")
	c.change(func() { c.down = true })
	get(t, handler, list, as("jane"))
	require.Contains(t, logs.String(), "connection refused")
	require.NotContains(t, logs.String(), "token-of-")
}

func TestTheFirstPageIsThatOfANamespace(t *testing.T) {
	t.Parallel()
	handler, _ := served(t, newCluster())
	response := get(t, handler, "/", as("jane"))
	require.Equal(t, http.StatusSeeOther, response.Code)
	require.Equal(t, "/namespaces/default/", response.Header().Get("Location"))
}

// TestNobodyReadsWhatWasIndexedForAnother opens a log as one user, and asks for the same as
// one without the right, and as one who has it.
func TestNobodyReadsWhatWasIndexedForAnother(t *testing.T) {
	t.Parallel()
	c := newCluster()
	handler, _ := served(t, c)
	require.Contains(t, get(t, handler, log+"text", as("jane")).Body.String(), said)
	for _, path := range []string{"info", "rows", "search?q=step", "find?stream=1&at=0", "text"} {
		response := get(t, handler, log+path, as("mallory"))
		require.Equal(t, http.StatusForbidden, response.Code, path)
		require.Equal(t, "text/plain; charset=utf-8", response.Header().Get("Content-Type"), "programs ask for it")
		require.Contains(t, response.Body.String(), "You may not read that: ")
		require.NotContains(t, response.Body.String(), said)
		require.NotContains(t, response.Body.String(), "step-compile", "names of streams")
	}
	require.Contains(t, get(t, handler, log+"text", as("bob")).Body.String(), said)
	c.change(func() {
		require.Positive(t, c.askedFor["token-of-bob"], "read with his own rights")
		require.Zero(t, c.askedFor["token-of-mallory"])
	})
}

// TestWaitingForALogThatIsntOpenReadsNothing asks for a change, which takes no place of the user's.
func TestWaitingForALogThatIsntOpenReadsNothing(t *testing.T) {
	t.Parallel()
	c := newCluster()
	handler, _ := served(t, c)
	response := get(t, handler, log+"info?after=3", as("jane"))
	require.Equal(t, http.StatusOK, response.Code)
	require.Contains(t, response.Body.String(), `"closed":true`)
	require.Equal(t, http.StatusForbidden, get(t, handler, log+"info?after=3", as("mallory")).Code)
	c.change(func() { require.Empty(t, c.asked) })
}

// TestTokensOfAUserShareBoundsButNoLogs reads a log with two tokens, which the API server may give
// different rights.
func TestTokensOfAUserShareBoundsButNoLogs(t *testing.T) {
	t.Parallel()
	c := newCluster()
	handler, _ := served(t, c)
	for _, token := range []string{"jane/1", "jane/2"} {
		c.rights["token-of-"+token] = []string{"team-a"}
		require.Contains(t, get(t, handler, log+"text", as(token)).Body.String(), said)
		c.change(func() { require.Positive(t, c.askedFor["token-of-"+token]) })
	}
	info := func(run string) (epoch int64) {
		var body struct{ Epoch int64 }
		response := get(t, handler, "/namespaces/team-a/taskrun/"+run+"/logs/info", as("jane/1"))
		require.NoError(t, json.Unmarshal(response.Body.Bytes(), &body), response.Body)
		return body.Epoch
	}
	first := info("release-build")
	require.Equal(t, first, info("release-build"))
	for _, run := range []string{"a", "b", "c", "d"} {
		response := get(t, handler, "/namespaces/team-a/taskrun/"+run+"/logs/info", as("jane/2"))
		require.Equal(t, http.StatusOK, response.Code, response.Body)
	}
	require.NotEqual(t, first, info("release-build"), "it was closed for those of the other token")
}

// TestAWithdrawnRightEndsTheReadingOfWhatIsIndexed withdraws rights while a log is open.
func TestAWithdrawnRightEndsTheReadingOfWhatIsIndexed(t *testing.T) {
	t.Parallel()
	c := newCluster()
	c.rights["token-of-jane"] = []string{"team-a", ""}
	handler, _ := served(t, c)
	times := func() (n int) {
		require.Contains(t, get(t, handler, log+"text", as("jane")).Body.String(), said)
		c.change(func() { n = c.askedFor["token-of-jane"] })
		return n
	}
	first := times()
	require.Equal(t, first, times(), "it is indexed once")
	c.change(func() { c.rights["token-of-jane"] = []string{"team-a"} })
	second := times()
	require.Greater(t, second, first, "what was read with the right to former namespaces is read anew")
	c.change(func() { c.uid = "second" })
	require.Greater(t, times(), second, "and so is what was read in a former namespace")
	for _, withdraw := range []func(){
		func() { c.mayNotAsk = []string{"jane"} },
		func() { c.rights["token-of-jane"], c.mayNotAsk = []string{}, nil },
	} {
		c.change(withdraw)
		response := get(t, handler, log+"text", as("jane"))
		require.Equal(t, http.StatusForbidden, response.Code)
		require.NotContains(t, response.Body.String(), said)
	}
	c.change(func() { delete(c.rights, "token-of-jane") })
	require.Equal(t, http.StatusUnauthorized, get(t, handler, log+"text", as("jane")).Code)
}

func TestThePageOnlyReads(t *testing.T) {
	t.Parallel()
	handler, _ := served(t, newCluster())
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		request := httptest.NewRequestWithContext(t.Context(), method, list, nil)
		request.Header.Set("Authorization", as("jane"))
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, request)
		require.Equal(t, http.StatusMethodNotAllowed, response.Code, method)
	}
}

// TestAUserWhoAsksWithoutEndLeavesPlacesForOthers has the API server hold up lists, for which the
// user has several tokens.
func TestAUserWhoAsksWithoutEndLeavesPlacesForOthers(t *testing.T) {
	t.Parallel()
	c := newCluster()
	c.held = make(chan struct{})
	handler, _ := served(t, c)
	codes := make(chan int, 100)
	var asking sync.WaitGroup
	for n := range cap(codes) {
		token := fmt.Sprint("jane/", n%7)
		c.change(func() { c.rights["token-of-"+token] = []string{"team-a"} })
		asking.Go(func() { codes <- get(t, handler, list, as(token)).Code })
	}
	for range cap(codes) - pageserver.MostOfUser {
		require.Equal(t, http.StatusServiceUnavailable, <-codes, "no place, not even to wait")
	}
	answered := make(chan int, 1)
	go func() { answered <- get(t, handler, "/namespaces/team-a/taskrun/nightly/", as("bob")).Code }()
	require.Equal(t, http.StatusOK, <-answered)
	close(c.held)
	asking.Wait()
}

func TestAGateLetsSoManyInAndFewerOfEachUser(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := pageserver.NewGate(3, 2)
		enters := func(user string) bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return gate.Enter(ctx, user)
		}
		require.True(t, enters("jane"))
		require.True(t, enters("jane"))
		require.False(t, enters("jane"), "two are hers")
		require.True(t, enters("bob"))
		require.False(t, enters("carol"), "three are all")
		go func() {
			time.Sleep(time.Second / 2)
			gate.Leave("jane")
		}()
		require.True(t, enters("carol"), "who has waited for a place")
		require.False(t, enters("jane"))
	})
}

func TestWhatMakesThePageGetsNoTokensAndCookies(t *testing.T) {
	t.Parallel()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, list, nil)
	request.Header.Set("Authorization", as("jane"))
	request.Header.Set("Cookie", "session=secret")
	request.Header.Set("Accept", "text/html")
	require.Equal(t, http.Header{"Accept": {"text/html"}}, pageserver.WithoutSecrets(t.Context(), request).Header)
	require.Equal(t, as("jane"), request.Header.Get("Authorization"))
}

func TestAnotherSiteMayOnlyLinkToThePage(t *testing.T) {
	t.Parallel()
	c := newCluster()
	handler, _ := served(t, c)
	for _, test := range []struct {
		site, mode string
		code       int
	}{
		{"cross-site", "no-cors", http.StatusForbidden},
		{"cross-site", "cors", http.StatusForbidden},
		{"cross-site", "", http.StatusForbidden},
		{"cross-site", "navigate", http.StatusOK},
		{"same-origin", "cors", http.StatusOK},
		{"none", "navigate", http.StatusOK},
		{"", "", http.StatusOK},
	} {
		c.change(func() { c.asked = nil })
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, list, nil)
		request.Header.Set("Authorization", as("jane"))
		request.Header.Set("Sec-Fetch-Site", test.site)
		request.Header.Set("Sec-Fetch-Mode", test.mode)
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, request)
		require.Equal(t, test.code, response.Code, test)
		if test.code == http.StatusForbidden {
			c.change(func() { require.Empty(t, c.asked, test) })
		}
	}
}

// TestWhatWaitsForALogTakesNoPlaceOfPages holds up the logs that are written as text, or waited for,
// and has the same user ask for pages.
func TestWhatWaitsForALogTakesNoPlaceOfPages(t *testing.T) {
	t.Parallel()
	pages := pageserver.New(pageserver.Options{Config: &rest.Config{}, Directory: t.TempDir(), Disk: 64 << 20})
	t.Cleanup(pages.Close)
	enters := func(asked string) bool {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it is its turn, or it isn't
		return pages.Enter(ctx, "jane", asked)
	}
	require.True(t, enters(log+"text"))
	require.False(t, enters(log+"text"), "one at a time")
	for range pageserver.MostMadeOfUser {
		require.True(t, enters(log+"info?after=1"))
	}
	for range pageserver.MostMadeOfUser {
		require.True(t, enters(log+"info"), "which begins to index")
	}
	require.False(t, enters(log+"info"))
	require.False(t, enters(log+"info?after="))
	require.False(t, enters(list))
	require.True(t, enters(log+"info?after=1"))
	require.True(t, enters("/assets/page.css"))
}

// TestAResponseWhoseTimeIsOverDoesntReadAsWhole has handlers that leave errors aside, as for a
// client that is gone.
func TestAResponseWhoseTimeIsOverDoesntReadAsWhole(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, end := context.WithCancel(r.Context())
		defer end()
		pageserver.ServeTimed(w, r.WithContext(ctx), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/waits" {
				_, _ = w.Write([]byte("first\n"))
			}
			if r.URL.Path != "/whole" {
				end()
				_, _ = w.Write([]byte("second\n"))
			}
		}))
	}))
	defer server.Close()
	read := func(path string) (code int, body string, err error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		require.NoError(t, err)
		response, err := server.Client().Do(request)
		if err != nil {
			return 0, "", err
		}
		defer func() { _ = response.Body.Close() }()
		content, err := io.ReadAll(response.Body)
		return response.StatusCode, string(content), err
	}
	_, body, err := read("/whole")
	require.NoError(t, err)
	require.Equal(t, "first\n", body)
	_, body, err = read("/cut")
	require.Error(t, err, body)
	code, _, err := read("/waits")
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, code, "nothing was written")
}
