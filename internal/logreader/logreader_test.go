// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/logs/api"
	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/logs/streams/streamstest"
	"github.com/entrypointer/entrypointer/internal/synced"

	"github.com/entrypointer/entrypointer/internal/target"
)

// fakeAuthenticator authorizes all users to read namespace tenant, in the place of the API
// server.
type fakeAuthenticator struct{ api.Authenticator }

// User implements api.FrontProxy.
func (fakeAuthenticator) User(*http.Request) (api.User, error) { return api.User{Name: "jane"}, nil }

// MayRead implements api.Authenticator.
func (fakeAuthenticator) MayRead(_ context.Context, _ api.User, namespace, _ string) error {
	if namespace != "tenant" {
		return api.ErrForbidden
	}
	return nil
}

// Namespace implements api.Authenticator.
func (fakeAuthenticator) Namespace(context.Context, string) (api.Namespace, error) {
	return api.Namespace{UID: "uid"}, nil
}

// A cluster is a log service behind a stand-in for the API server.
type cluster struct {
	t      *testing.T
	store  *streams.Store
	client *Client

	service *api.Server
	server  *httptest.Server

	mu    sync.Mutex
	phase string // of all pods
	// containers has the containerStatuses of a pod, as JSON.
	containers map[string]string
	// specs has the containers of a pod, as JSON.
	specs map[string]string
	// inits has the initContainers of a pod, as JSON.
	inits map[string]string
	// labels are those of the pods; without any, each pod has all labels.
	labels map[string]labels.Set
	// workloads are other objects, as JSON, by their paths.
	workloads map[string]string
	gone      bool     // no pod exists
	forbidden bool     // the user may not get pods
	ill       bool     // the API server fails to return pods
	cuts      int      // so many answers are cut after their first bytes
	asked     []string // the paths of all requests, in their order
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	store := streamstest.Open(t, t.TempDir())
	c := &cluster{t: t, store: store, phase: "Running", containers: map[string]string{}, specs: map[string]string{}, inits: map[string]string{}}
	replica := api.New(store, fakeAuthenticator{}, slog.New(slog.DiscardHandler))
	replica.Permit(fakeAuthenticator{})
	c.service = replica
	service := replica.Aggregated(fakeAuthenticator{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.asked = append(c.asked, r.URL.Path)
		gone, forbidden, ill, cut := c.gone, c.forbidden, c.ill, strings.HasSuffix(r.URL.Path, "/log") && c.cuts > 0
		if cut {
			c.cuts--
		}
		pod := path.Base(r.URL.Path)
		found, workload := c.pod(pod), c.workloads[r.URL.Path]
		var all []string
		selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
		for name := range c.specs {
			if err == nil && (c.labels == nil || selector.Matches(c.labels[name])) {
				all = append(all, c.pod(name))
			}
		}
		c.mu.Unlock()
		switch {
		case strings.HasPrefix(r.URL.Path, "/api/v1/") && gone:
			http.NotFound(w, r)
		case strings.HasPrefix(r.URL.Path, "/api/v1/") && forbidden:
			http.Error(w, "no", http.StatusForbidden)
		case strings.HasPrefix(r.URL.Path, "/api/v1/") && ill:
			http.Error(w, "no", http.StatusInternalServerError)
		case r.URL.Path == "/api/v1/namespaces/tenant/pods":
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","items":[%s]}`, strings.Join(all, ","))
		case strings.HasPrefix(r.URL.Path, "/api/v1/"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, found)
		case workload != "":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, workload)
		case cut:
			service.ServeHTTP(&cutting{w}, r)
		default:
			service.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	c.server, c.client = server, clientOf(t, server.URL)
	return c
}

// pod returns a pod as JSON.
func (c *cluster) pod(name string) string {
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"uid":%q},"spec":{"containers":[%s],"initContainers":[%s]},"status":{"phase":%q,"containerStatuses":[%s]}}`,
		name, "uid-"+name, c.specs[name], c.inits[name], c.phase, c.containers[name])
}

func clientOf(t *testing.T, address string) *Client {
	t.Helper()
	client, err := rest.UnversionedRESTClientFor(&rest.Config{
		Host: address, QPS: 1000, Burst: 1000, ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
	})
	require.NoError(t, err)
	return &Client{REST: client, Namespace: "tenant"}
}

// cutting breaks the connection after an event.
type cutting struct{ http.ResponseWriter }

// Write implements io.Writer.
func (c *cutting) Write(p []byte) (int, error) {
	_, _ = c.ResponseWriter.Write(p)
	_ = http.NewResponseController(c.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

// Unwrap is for http.ResponseController.
func (c *cutting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *cluster) ends(phase string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.phase = phase
}

// stream stores the output of a container as a stream.
func (c *cluster) stream(pod, container, start, name string, texts ...string) (id string) {
	c.t.Helper()
	id, err := c.store.Create(c.t.Context(), streams.Source{Namespace: "tenant", Pod: pod, PodUID: "uid-" + pod, Container: container, Start: start, Name: name})
	require.NoError(c.t, err)
	var at int64
	for _, text := range texts {
		require.NoError(c.t, c.store.Write(c.t.Context(), id, at, []byte(text)))
		at += int64(len(text))
	}
	return id
}

func (c *cluster) end(id string, total int64) {
	c.t.Helper()
	require.NoError(c.t, c.store.End(c.t.Context(), id, total))
}

// printed returns the printed logs of a pod, or of another target.
func (c *cluster) printed(named string, change func(*Options)) (string, error) {
	c.t.Helper()
	parsed, err := target.Parse(named, target.All())
	require.NoError(c.t, err)
	var out bytes.Buffer
	o := Options{Target: parsed, Tail: -1, Printer: NewPrinter(&out), Warnings: io.Discard}
	if change != nil {
		change(&o)
	}
	err = c.client.Print(c.t.Context(), o)
	return out.String(), err
}

func TestAContainersStreamsArePrintedUnchanged(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.stream("p", "main", "1", "stdout", "one\ntwo\nthr", "ee")
	text, err := c.printed("p", nil)
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\nthree", text)

	c.stream("p", "main", "1", "stderr", "oh\n")
	text, err = c.printed("pod/p", nil)
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\nthree\noh\n", text, "stdout comes first")
	text, err = c.printed("po/p", func(o *Options) { o.Stream = "stderr" })
	require.NoError(t, err)
	require.Equal(t, "oh\n", text)
}

func TestContainersComeInTheOrderOfTheirStartsEachWithItsName(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.stream("p", "b", "1", "stdout", "first\nand")
	c.stream("p", "a", "2", "stdout", "second\n")
	text, err := c.printed("p", nil)
	require.NoError(t, err)
	require.Equal(t, "[pod/p/b] first\n[pod/p/b] and\n[pod/p/a] second\n", text)
	text, err = c.printed("p", func(o *Options) { o.Printer.Prefix, o.Printer.Color = new(false), true })
	require.NoError(t, err)
	require.Equal(t, "\x1b[36mfirst\x1b[0m\n\x1b[36mand\x1b[0m\n\x1b[33msecond\x1b[0m\n", text)
	text, err = c.printed("p", func(o *Options) { o.Printer.Color, o.Container = true, "a"; o.Printer.Prefix = new(true) })
	require.NoError(t, err)
	require.Equal(t, "\x1b[36m[pod/p/a] \x1b[0msecond\n", text)
}

func TestLogsOfARunAreThoseOfAllItsPods(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for i, pod := range []string{"build-pod", "test-pod", "other"} {
		source := streams.Source{Namespace: "tenant", Pod: pod, PodUID: "uid-" + pod, Container: "step-run", Start: fmt.Sprint(i), Name: "stdout"}
		if pod != "other" {
			source.Labels = map[string]string{"tekton.dev/pipelineRun": "release", "serving.knative.dev/service": "hello", "tekton.dev/taskRun": "release-" + pod}
		}
		id, err := c.store.Create(t.Context(), source)
		require.NoError(t, err)
		require.NoError(t, c.store.Write(t.Context(), id, 0, []byte("of "+pod+"\n")))
	}
	for target, want := range map[string]string{
		"pipelinerun/release":       "[pod/build-pod/step-run] of build-pod\n[pod/test-pod/step-run] of test-pod\n",
		"ksvc/hello":                "[pod/build-pod/step-run] of build-pod\n[pod/test-pod/step-run] of test-pod\n",
		"tr/release-build-pod":      "of build-pod\n",
		"TaskRun/release-build-pod": "of build-pod\n",
	} {
		text, err := c.printed(target, nil)
		require.NoError(t, err)
		require.Equal(t, want, text, target)
	}
	requireFollows(t, c, "revision/none", "")
	requireFollows(t, c, "ksvc/hello", "[pod/build-pod/step-run] of build-pod\n[pod/test-pod/step-run] of test-pod\n")
	_, err := c.printed("revision/hello", nil)
	require.ErrorContains(t, err, "no logs of revision/hello")
}

// requireFollows follows a target without an end until the wanted text was printed, and
// nothing more for a second.
func requireFollows(t *testing.T, c *cluster, named, want string) {
	t.Helper()
	parsed, err := target.Parse(named, target.All())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &synced.Buffer{}
	ended := make(chan error, 1)
	go func() {
		ended <- c.client.Print(ctx, Options{Target: parsed, Follow: true, Tail: -1, Printer: NewPrinter(out), Warnings: io.Discard})
	}()
	require.Eventually(t, func() bool { return len(out.String()) >= len(want) }, 30*time.Second, time.Millisecond)
	time.Sleep(time.Second)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.ElementsMatch(t, strings.Split(want, "\n"), strings.Split(out.String(), "\n"))
}

func TestTheLastLinesAreFoundFromTheEnd(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.stream("short", "main", "1", "stdout", "one\ntwo\nthree\n")
	c.stream("cut", "main", "1", "stdout", "one\ntwo\nthree")
	var parts []string
	for i := range 10 {
		parts = append(parts, strings.Repeat(fmt.Sprintf("line %d of many\n", i), 2000))
	}
	c.stream("long", "main", "1", "stdout", parts...)
	for _, test := range []struct {
		pod   string
		lines int
		want  string
	}{
		{"short", 0, ""},
		{"short", 1, "three\n"},
		{"short", 2, "two\nthree\n"},
		{"short", 3, "one\ntwo\nthree\n"},
		{"short", 9, "one\ntwo\nthree\n"},
		{"cut", 1, "three"},
		{"cut", 2, "two\nthree"},
		{"cut", 3, "one\ntwo\nthree"},
		{"long", 2, strings.Repeat("line 9 of many\n", 2)},
		{"long", 15000, strings.Join(parts, "")[len(strings.Join(parts, ""))*1/4:]},
		{"long", 99999, strings.Join(parts, "")},
	} {
		text, err := c.printed(test.pod, func(o *Options) { o.Tail = test.lines })
		require.NoError(t, err)
		require.Equal(t, test.want, text, "%s %d", test.pod, test.lines)
	}
}

func TestAPlaceholderStandsForDroppedBytes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.stream("p", "main", "1", "stdout", "one\n")
	require.NoError(t, c.store.Drop(t.Context(), id, streams.Range{From: 4, To: 10}))
	require.NoError(t, c.store.Write(t.Context(), id, 10, []byte("two\n")))
	text, err := c.printed("p", nil)
	require.NoError(t, err)
	require.Equal(t, "one\n[entrypointer: 6 bytes were dropped]\ntwo\n", text)
}

// A reader who looks for a word has to know where it may be missing.
func TestOnlyLinesThatMatchArePrintedAndWhereBytesAreMissing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	long := "error: " + strings.Repeat("x", 3*longestLine) + "\n"
	id := c.stream("p", "main", "1", "stdout", "fine\n", "error: one\n", strings.Repeat("y", 3*longestLine)+" error:\n", long)
	at := int64(len("fine\nerror: one\n") + 3*longestLine + len(" error:\n") + len(long))
	require.NoError(t, c.store.Drop(t.Context(), id, streams.Range{From: at, To: at + 6}))
	require.NoError(t, c.store.Write(t.Context(), id, at+6, []byte("fine\nerror: last")))
	text, err := c.printed("p", func(o *Options) { o.Printer.Match = regexp.MustCompile("^error:") })
	require.NoError(t, err)
	require.Equal(t, "error: one\n"+long+"[entrypointer: 6 bytes were dropped]\nerror: last", text)
}

func TestAPlaceholderStandsForBytesThatRetentionHasDeleted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.stream("p", "main", "1", "stdout", "one\n")
	require.NoError(t, c.store.Write(t.Context(), id, 4, []byte("two\n")))
	for _, want := range []string{"[entrypointer: 4 bytes were deleted by retention]\ntwo\n", "[entrypointer: 8 bytes were deleted by retention]\n"} {
		found, err := c.store.Tidy(t.Context(), id, time.Now(), 0)
		require.NoError(t, err)
		_, err = c.store.Trim(t.Context(), id, time.Now(), found.Content-1)
		require.NoError(t, err)
		text, err := c.printed("p", nil)
		require.NoError(t, err)
		require.Equal(t, want, text)
	}
}

func TestACutConnectionCostsNoByteAndRepeatsNone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.stream("p", "main", "1", "stdout", "one\n", "two\n", "three\n")
	c.cuts = 2
	text, err := c.printed("p", nil)
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\nthree\n", text)
	c.end(id, 14)
	c.ends("Succeeded")
	c.cuts = 2
	text, err = c.printed("p", func(o *Options) { o.Follow = true })
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\nthree\n", text)
}

func TestFollowersSeeNewContainersAndTheEnd(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	named, err := target.Parse("p", target.All())
	require.NoError(t, err)
	var warnings bytes.Buffer
	out := &synced.Buffer{}
	f := newFollower(c.client, Options{Target: named, Tail: 1, Printer: NewPrinter(out), Warnings: &warnings})
	f.listInterval, f.unendedGrace = 20*time.Millisecond, time.Second
	ended := make(chan error, 1)
	go func() { ended <- f.run(t.Context()) }()
	time.Sleep(50 * time.Millisecond) // there is nothing yet
	id := c.stream("p", "main", "1", "stdout", "one\n")
	require.Eventually(t, func() bool { return out.String() == "one\n" }, 5*time.Second, 10*time.Millisecond)
	c.stream("p", "killed", "2", "stdout", "two\n")
	require.Eventually(t, func() bool { return out.String() == "one\n[pod/p/killed] two\n" }, 5*time.Second, 10*time.Millisecond)
	c.end(id, 4)
	select {
	case err := <-ended:
		t.Fatal("the pod runs", err)
	case <-time.After(200 * time.Millisecond):
	}
	c.ends("Failed")
	requireCutOff(t, <-ended)
	require.Equal(t, "stdout of container \"killed\" of pod \"p\" was cut off: the container has ended, and what it printed last may be missing.\n", warnings.String())
}

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	_, err := c.printed("p", nil)
	require.ErrorContains(t, err, `the log service has no logs of pod/p in namespace "tenant"`)
	c.ends("Succeeded")
	_, err = c.printed("p", func(o *Options) { o.Follow = true })
	require.ErrorContains(t, err, "annotation entrypointer.dev/logs")

	c.client.Namespace = "other"
	_, err = c.printed("p", nil)
	require.ErrorContains(t, err, "you need the right to get pods/log of this pod")

	none := httptest.NewServer(http.NotFoundHandler())
	defer none.Close()
	c.client = clientOf(t, none.URL)
	for _, follow := range []bool{false, true} {
		_, err = c.printed("p", func(o *Options) { o.Follow = follow })
		require.ErrorContains(t, err, "ko apply -f config/logs")
	}
}
