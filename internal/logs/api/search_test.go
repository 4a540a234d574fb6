// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bufio"
	"context"
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

	"github.com/entrypointer/entrypointer/internal/logs/times"
)

// A searched is the response to a search.
type searched struct {
	lines []string // with their pods and streams, and - for those that don't match
	times []int64
	end   searchEnd
	kinds string
}

func parseSearched(t *testing.T, body string) (found searched) {
	t.Helper()
	of := ""
	for event := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		if strings.HasPrefix(event, ":") {
			continue
		}
		kind, data, _ := strings.Cut(strings.TrimPrefix(event, "event: "), "\ndata: ")
		found.kinds += kind + " "
		switch kind {
		case "stream":
			var l listedStream
			require.NoError(t, json.Unmarshal([]byte(data), &l))
			of = l.Pod + "/" + l.Name
		case "line":
			var l foundLine
			require.NoError(t, json.Unmarshal([]byte(data), &l))
			mark := "-"
			if l.Match {
				mark = ":"
			}
			found.lines = append(found.lines, of+mark+string(l.Text))
			found.times = append(found.times, l.Time)
		case "end":
			require.NoError(t, json.Unmarshal([]byte(data), &found.end))
		}
	}
	return found
}

func (s *service) search(user, parameters string) searched {
	s.t.Helper()
	got := s.do(http.MethodGet, "/search?namespace=tenant&"+parameters, "token-of-user-"+user, "")
	require.Equal(s.t, http.StatusOK, got.status, got.body)
	require.Equal(s.t, eventStreamType, got.header.Get("Content-Type"))
	return parseSearched(s.t, got.body)
}

// print creates a stream with a text.
func (s *service) print(token, name, text string) (path string) {
	s.t.Helper()
	got := s.do(http.MethodPost, "/logs", token, fmt.Sprintf(`{"name":%q,"container":"main","labels":{"entrypointer.dev/job":%q}}`, name, token))
	require.Equal(s.t, http.StatusOK, got.status, got.body)
	var made struct{ ID string }
	require.NoError(s.t, json.Unmarshal([]byte(got.body), &made))
	path = "/logs/" + made.ID
	got = s.do(http.MethodPatch, path+"/data", token, text, "Content-Range", fmt.Sprintf("bytes 0-%d/*", len(text)-1))
	require.Equal(s.t, http.StatusAccepted, got.status, got.body)
	return path
}

func TestTheLinesThatMatchAreFoundInAllStreams(t *testing.T) {
	s := serve(t, 2)
	s.print("token-of-a", "stdout", "one\ntwo\nthree\nfour\n\xfffive")
	s.print("token-of-a", "events", `{"event":"one"}`+"\n")
	s.print("token-of-b", "stderr", "One\n")
	s.date("b", time.Now().Add(-time.Minute))
	for parameters, want := range map[string][]string{
		"grep=^t":                     {"a/stdout:two", "a/stdout:three"},
		"grep=one%26ignoreCase=true":  nil,
		"grep=one&ignoreCase=true":    {"a/stdout:one", "b/stderr:One"},
		"grep=three&before=1&after=1": {"a/stdout-two", "a/stdout:three", "a/stdout-four"},
		"grep=five":                   {"a/stdout:\xfffive"},
		"grep=.&pod=b":                {"b/stderr:One"},
		"grep=.&stream=events":        {`a/events:{"event":"one"}`},
		"grep=.&stream=stderr":        {"b/stderr:One"},
		"grep=.&container=other":      nil,
		"grep=ne&labelSelector=" + url.QueryEscape("entrypointer.dev/job=token-of-b"): {"b/stderr:One"},
		"grep=o&limit=2":           {"a/stdout:one", "a/stdout:two"},
		"grep=one&limit=1&after=1": {"a/stdout:one", "a/stdout-two"},
		"grep=.&since=" + url.QueryEscape(time.Now().Add(time.Hour/2).Format(time.RFC3339)): nil,
	} {
		found := s.search("tenant", parameters)
		require.Equal(t, want, found.lines, parameters)
		isLimited := strings.Contains(parameters, "limit")
		require.Equal(t, !isLimited, found.end.Complete, parameters)
		if isLimited {
			require.Equal(t, "limit", found.end.Reason)
		}
	}
	found := s.search("tenant", "grep=four")
	require.Equal(t, searchEnd{Complete: true, Found: 1, Streams: 2, Bytes: 28}, found.end)
	require.Equal(t, "stream line end ", found.kinds)
	got := s.aggregated(&proxy{}, "/namespaces/tenant/logs/search/log?grep=four", "tenant")
	require.Equal(t, found, parseSearched(t, got.body))
}

func TestALineThatIsFoundHasTheTimeAtWhichItWasPrinted(t *testing.T) {
	s := serve(t, 1)
	path := s.stream("stdout")
	var text string
	var marks []times.Mark
	for i := range 100 {
		marks = append(marks, times.Mark{At: int64(len(text)), Time: 1795000000000 + int64(i)*1000})
		text += fmt.Sprintf("line %d\n", i)
	}
	s.accepted(http.MethodPatch, path+"/data", zippedWith(t, times.Encode(0, marks), text), "Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(text)-1, len(text)), "Content-Encoding", "gzip")
	found := s.search("tenant", "grep=7$&limit=3")
	require.Equal(t, []int64{1795000007000, 1795000017000, 1795000027000}, found.times)
	since := time.UnixMilli(1795000097000).UTC()
	found = s.search("tenant", "grep=7$&since="+since.Format(time.RFC3339))
	require.Equal(t, []string{"a/stdout:line 97"}, found.lines)
}

func TestASearchNeedsTheRightsOfReading(t *testing.T) {
	s := serve(t, 1)
	s.print("token-of-a", "stdout", "secret\n")
	s.print("token-of-next", "stderr", "of the next namespace\n")
	for user, want := range map[string]int{"tenant": http.StatusOK, "other": http.StatusForbidden} {
		require.Equal(t, want, s.do(http.MethodGet, "/search?namespace=tenant&grep=.", "token-of-user-"+user, "").status)
		require.Equal(t, want, s.aggregated(&proxy{}, "/namespaces/tenant/logs/search/log?grep=.", user).status)
	}
	require.Equal(t, http.StatusUnauthorized, s.do(http.MethodGet, "/search?namespace=tenant&grep=.", "token-of-a", "").status)
	require.Equal(t, []string{"a/stdout:secret"}, s.search("tenant", "grep=.").lines, "not what the namespace had whose UID differs")
	require.Len(t, s.search("everywhere", "grep=.").lines, 2)
	s.who.onlyPod = "b"
	require.Equal(t, http.StatusForbidden, s.do(http.MethodGet, "/search?namespace=tenant&grep=.", "token-of-user-tenant", "").status)
	require.Equal(t, http.StatusForbidden, s.do(http.MethodGet, "/search?namespace=tenant&grep=.&pod=a", "token-of-user-tenant", "").status)
	require.Empty(t, s.search("tenant", "grep=.&pod=b").lines)
}

func TestASearchThatIsWrongIsRefused(t *testing.T) {
	s := serve(t, 1)
	for parameters, says := range map[string]string{
		"": "use a regular expression", "grep=(": "missing closing )", "grep=" + strings.Repeat("a", 1025): "use 1024 at most", "grep=a&before=101": "use a number from 0 to 100",
		"grep=a&limit=0": "use a number from 1 to 100000", "grep=a&ignoreCase=maybe": "use true or false", "grep=a&pod=..": "invalid name", "grep=a&since=now": "use a time such as",
		"grep=a&labelSelector=app%3Dweb": "can't be listed by this label", "grep=a&container=" + strings.Repeat("c", 254): "use a name of 253 bytes",
	} {
		got := s.do(http.MethodGet, "/search?namespace=tenant&"+parameters, "token-of-user-tenant", "")
		require.Equal(t, http.StatusBadRequest, got.status, "%s: %s", parameters, got.body)
		require.Contains(t, got.body, says)
	}
}

func TestASearchThatHasNotReadEverythingSaysSo(t *testing.T) {
	s := serve(t, 1)
	path := s.print("token-of-a", "stdout", "one\n")
	s.accepted(http.MethodPost, path+"/markers", `{"range":"bytes 4-9/*","markers":["dropped"]}`)
	s.accepted(http.MethodPatch, path+"/data", "one", "Content-Range", "bytes 10-12/20")
	found := s.search("tenant", "grep=one")
	require.Equal(t, searchEnd{Complete: true, Found: 2, Streams: 1, Bytes: 7, Dropped: 6, Missing: 7}, found.end)

	s.servers[0].bounds = searchBounds{bytes: 4, time: time.Hour}
	require.Equal(t, "bytes", s.search("tenant", "grep=one").end.Reason)
	s.servers[0].bounds = searchBounds{bytes: 1 << 30, time: 0}
	found = s.search("tenant", "grep=one")
	require.Equal(t, "time", found.end.Reason)
	require.False(t, found.end.Complete)

	s.servers[0].bounds = defaultBounds
	require.NoError(t, os.WriteFile(filepath.Join(s.directory, "streams", strings.TrimPrefix(path, "/logs/"), "data", fmt.Sprintf("%016x-%x", 0, 4)), []byte("damaged"), 0o600))
	found = s.search("tenant", "grep=one")
	require.Equal(t, "stream unread line end ", found.kinds)
	require.Equal(t, "unread", found.end.Reason)
	require.Equal(t, 1, found.end.Unread)

	s.servers[0].CutFollowers()
	require.Eventually(t, func() bool { return s.search("tenant", "grep=one").end.Reason == "stopping" }, 5*time.Second, time.Millisecond)
}

func TestSearchesAreBoundedForEachUserAndNamespace(t *testing.T) {
	s := serve(t, 1)
	search := func(user string) int {
		return s.do(http.MethodGet, "/search?namespace=tenant&grep=.", "token-of-user-"+user, "").status
	}
	limits := s.servers[0].searches
	require.True(t, limits.TryAcquire(2, "other", "tenant"))
	require.Equal(t, http.StatusTooManyRequests, search("tenant"), "the user has two")
	require.Equal(t, http.StatusOK, search("everywhere"))
	require.True(t, limits.TryAcquire(2, "tenant", "somebody"))
	require.Equal(t, http.StatusTooManyRequests, search("everywhere"), "the namespace has two")
	limits.Release(2, "other", "tenant")
	limits.Release(2, "tenant", "somebody")
	require.Equal(t, http.StatusOK, search("tenant"))
	require.Zero(t, limits.InUse())
}

func TestAClientThatGoesAwayOrTakesNothingEndsItsSearch(t *testing.T) {
	s := serve(t, 1)
	s.servers[0].timing.reader = 50 * time.Millisecond
	path := s.stream("stdout")
	line := strings.Repeat("x", 60_000) + "\n"
	const lines = 1000
	for i := range int64(lines / 4) {
		s.accepted(http.MethodPatch, path+"/data", zipped(t, strings.Repeat(line, 4)), "Content-Range", fmt.Sprintf("bytes %d-%d/*", i*4*int64(len(line)), (i+1)*4*int64(len(line))-1), "Content-Encoding", "gzip")
	}
	for name, goes := range map[string]bool{"goes away": true, "takes nothing": false} {
		ctx, cancel := context.WithCancel(t.Context())
		response, err := http.DefaultClient.Do(s.request(http.MethodGet, "/search?namespace=tenant&grep=x", "token-of-user-tenant", "").WithContext(ctx))
		require.NoError(t, err)
		_, err = bufio.NewReader(response.Body).ReadString('\n')
		require.NoError(t, err)
		if goes {
			cancel()
		}
		require.Eventually(t, func() bool { return s.servers[0].searches.InUse() == 0 }, 10*time.Second, time.Millisecond, name)
		require.NoError(t, response.Body.Close())
		cancel()
	}
	require.Less(t, s.servers[0].streams.HeldBytes(), int64(1<<20))
}

func TestASearchThatFindsNothingKeepsItsConnection(t *testing.T) {
	s := serve(t, 1)
	server := s.servers[0]
	server.timing.beat = time.Millisecond
	got := make(chan struct{})
	reader, writer := newPipeRecorder(got)
	out := &searchWriter{w: writer, connection: http.NewResponseController(writer), timing: server.timing}
	ctx, stop := context.WithCancelCause(t.Context())
	wait := out.keepAlive(ctx, nil, stop)
	<-got
	wait()
	require.Equal(t, http.StatusOK, reader.code)
	require.True(t, strings.HasPrefix(reader.text, ":\n\n"))
}

// A pipeRecorder records a response, and closes got with its first bytes.
type pipeRecorder struct {
	header http.Header
	code   int
	text   string
	got    chan struct{}
}

func newPipeRecorder(got chan struct{}) (*pipeRecorder, http.ResponseWriter) {
	r := &pipeRecorder{header: http.Header{}, got: got}
	return r, r
}

func (r *pipeRecorder) Header() http.Header              { return r.header }
func (r *pipeRecorder) WriteHeader(code int)             { r.code = code }
func (r *pipeRecorder) Flush()                           {}
func (r *pipeRecorder) SetWriteDeadline(time.Time) error { return nil }
func (r *pipeRecorder) Write(p []byte) (int, error) {
	if r.text == "" {
		close(r.got)
	}
	r.text += string(p)
	return len(p), nil
}
