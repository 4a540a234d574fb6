// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/internal/logview"
	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/objects/objectstest"
	"github.com/entrypointer/entrypointer/internal/page"
	"github.com/entrypointer/entrypointer/internal/page/pagetest"
	"github.com/entrypointer/entrypointer/internal/podstatus"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

var update = flag.Bool("update", false, "write golden files instead of comparing with them")

const (
	token = "token"
	port  = "8001"
)

// served returns the page of a cluster behind its gate.
func served(t *testing.T, cluster http.Handler, changes ...func(*page.Options)) http.Handler {
	t.Helper()
	logs := logview.New(logview.Options{Dir: t.TempDir()})
	t.Cleanup(logs.Close)
	o := page.Options{
		Logs:   logs,
		Client: objectstest.Client(t, pagetest.Namespace, cluster), Base: "/" + token,
		Now: func() time.Time { return pagetest.Now },
		Statuses: func(c *objects.Client) *podstatus.Reader {
			return &podstatus.Reader{Client: *c, Exec: func(context.Context, string, string, ...string) ([]byte, error) {
				return nil, errors.New("no supervisor answers")
			}}
		},
	}
	for _, change := range changes {
		change(&o)
	}
	return page.Gate(token, port, page.New(o))
}

// get returns the response to a request for a path behind the token.
func get(handler http.Handler, path string, changes ...func(*http.Request)) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:"+port+"/"+token+path, nil)
	for _, change := range changes {
		change(request)
	}
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)
	return response
}

const list, release = "/namespaces/team-a/", "/namespaces/team-a/pipelinerun/release/"

func TestWithoutTokenAndHostThereIsNothing(t *testing.T) {
	t.Parallel()
	handler := served(t, pagetest.New())
	nothing := get(handler, list, func(r *http.Request) { r.URL.Path = "/" }).Body.String()
	for name, change := range map[string]func(*http.Request){
		"no token":                  func(r *http.Request) { r.URL.Path = list },
		"another token":             func(r *http.Request) { r.URL.Path = "/nekot" + list },
		"a longer token":            func(r *http.Request) { r.URL.Path = "/tokenx" + list },
		"a part of the token":       func(r *http.Request) { r.URL.Path = "/toke" + list },
		"the token alone":           func(r *http.Request) { r.URL.Path = "/token" },
		"a name of an attacker's":   func(r *http.Request) { r.Host = "rebound.example:" + port },
		"another port":              func(r *http.Request) { r.Host = "127.0.0.1:1" },
		"no port":                   func(r *http.Request) { r.Host = "127.0.0.1" },
		"no host":                   func(r *http.Request) { r.Host = "" },
		"localhost":                 func(r *http.Request) { r.Host = "localhost:" + port },
		"loopback of IPv6":          func(r *http.Request) { r.Host = "[::1]:" + port },
		"another token and a write": func(r *http.Request) { r.URL.Path = "/nekot" + list; r.Method = http.MethodPost },
	} {
		response := get(handler, list, change)
		require.Equal(t, http.StatusNotFound, response.Code, name)
		require.Equal(t, nothing, response.Body.String(), name)
		require.Contains(t, response.Header().Get("Content-Security-Policy"), "default-src 'none'", name)
	}
	require.Equal(t, http.StatusOK, get(handler, list).Code)
}

// TestThePortOfHTTPIsLeftOut has the Host that browsers send for http://127.0.0.1:80.
func TestThePortOfHTTPIsLeftOut(t *testing.T) {
	t.Parallel()
	gate := page.Gate(token, "80", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, code := range map[string]int{"127.0.0.1": http.StatusOK, "127.0.0.1:80": http.StatusOK, "localhost": http.StatusNotFound, "[::1]": http.StatusNotFound, "127.0.0.1:8080": http.StatusNotFound} {
		require.Equal(t, code, get(gate, "/", func(r *http.Request) { r.Host = host }).Code, host)
	}
}

func TestTokensDiffer(t *testing.T) {
	t.Parallel()
	one, other := page.NewToken(), page.NewToken()
	require.Regexp(t, `^[A-Za-z0-9_-]{43}$`, one)
	require.NotEqual(t, one, other)
}

func TestThePageOnlyReads(t *testing.T) {
	t.Parallel()
	handler := served(t, pagetest.New())
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace, "X"} {
		response := get(handler, list, func(r *http.Request) { r.Method = method })
		require.Equal(t, http.StatusMethodNotAllowed, response.Code, method)
		require.Equal(t, "GET, HEAD", response.Header().Get("Allow"), method)
	}
	require.Equal(t, http.StatusOK, get(handler, list, func(r *http.Request) { r.Method = http.MethodHead }).Code)
}

func TestEveryResponseIsProtected(t *testing.T) {
	t.Parallel()
	handler := served(t, pagetest.New())
	for path, code := range map[string]int{
		"/": 303, list: 200, release: 200, release + "timeline.svg": 200, "/assets/page.css": 200, "/assets/page.mjs": 200,
		"/nothing": 404, "/assets/nothing": 404, "/namespaces/team-a/pod/none/": 404, "/namespaces/Team-A/": 404, "/namespaces/team-a/po/hostile/": 404, release + "timeline.png": 404,
	} {
		response := get(handler, path, func(r *http.Request) { r.Header.Set("Origin", "https://attacker.example") })
		require.Equal(t, code, response.Code, path)
		header := response.Header()
		require.Equal(t, "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'", header.Get("Content-Security-Policy"), path)
		for name, value := range map[string]string{"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store", "Access-Control-Allow-Origin": "", "Set-Cookie": ""} {
			require.Equal(t, value, header.Get(name), "%s of %s", name, path)
		}
	}
}

func TestSoManyRequestsAreAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}, 100), make(chan struct{})
	cluster := pagetest.New()
	handler := served(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/pods/hostile") {
			asked <- struct{}{}
			<-release
		}
		cluster.ServeHTTP(w, r)
	}))
	codes := make(chan int, 100)
	for range 24 {
		go func() { codes <- get(handler, "/namespaces/team-a/pod/hostile/").Code }()
	}
	for range 24 {
		<-asked
	}
	refused := get(handler, "/assets/page.css")
	require.Equal(t, http.StatusServiceUnavailable, refused.Code)
	require.NotEmpty(t, refused.Header().Get("Retry-After"))
	close(release)
	for range 24 {
		require.Equal(t, http.StatusOK, <-codes)
	}
	require.Equal(t, http.StatusOK, get(handler, "/assets/page.css").Code)
}

func TestWhatTenantsWriteIsTextOnEveryPage(t *testing.T) {
	t.Parallel()
	cluster := pagetest.New()
	handler := served(t, cluster)
	cluster.Refuse("daemonsets", http.StatusInternalServerError)
	for _, path := range []string{
		list + "?parts=on", "/namespaces/team-a/pod/hostile/", list + "?labels=" + `%3Cscript%3Ealert(3)%3C/script%3E`, list + "?q=" + `%22%3E%3Cscript%3Ealert(4)%3C/script%3E`,
		"/namespaces/team-a/pod/%3Cscript%3Ealert(5)%3C%2fscript%3E/",
	} {
		body := get(handler, path).Body.String()
		require.NotContains(t, body, "\u202e", path)
		require.NotContains(t, body, "\x1b", path)
		for node := range requireHTML(t, body).Descendants() {
			if node.Type != html.ElementNode {
				continue
			}
			require.NotEqual(t, "img", node.Data, path)
			if node.Data == "script" {
				require.Nil(t, node.FirstChild, "%s has a script in it", path)
			}
			for _, a := range node.Attr {
				require.False(t, strings.HasPrefix(a.Key, "on") || a.Key == "style", "%s has the attribute %s", path, a.Key)
			}
		}
	}
	require.Contains(t, get(handler, "/namespaces/team-a/pod/hostile/").Body.String(), "&lt;img src=x onerror=")
}

func requireHTML(t *testing.T, body string) *html.Node {
	t.Helper()
	root, err := html.Parse(strings.NewReader(body))
	require.NoError(t, err)
	return root
}

// TestTheListTellsWhatRuns compares the list, without and with filters.
func TestTheListTellsWhatRuns(t *testing.T) {
	t.Parallel()
	handler := served(t, pagetest.New())
	require.Equal(t, []string{
		"pod/hostile failed", "job/report succeeded", "pipelinerun/release failed", "taskrun/nightly gone", "deployment/web not ready",
	}, rows(t, get(handler, list)))
	for query, want := range map[string][]string{
		"?q=RELEASE":                           {"pipelinerun/release failed"},
		"?q=succeeded":                         {"job/report succeeded"},
		"?q=app=shop":                          {"pipelinerun/release failed"},
		"?type=deployment":                     {"deployment/web not ready"},
		"?type=taskrun":                        {"taskrun/release-test failed", "taskrun/release-build succeeded", "taskrun/release-lint succeeded", "taskrun/nightly gone"},
		"?type=nothing&q=nightly&parts=on":     {"pod/nightly-pod gone", "taskrun/nightly gone"},
		"?labels=app%3Dweb&parts=on":           {"pod/web-7f9c-x2x1z running", "deployment/web not ready"},
		"?labels=tekton.dev/taskRun%3Dnightly": {"taskrun/nightly gone"},
		"?q=none":                              nil,
	} {
		require.Equal(t, want, rows(t, get(handler, list+query)), query)
	}
	require.Equal(t, http.StatusBadRequest, get(handler, list+"?labels=a%3D%3D%3Db").Code)
}

// rows returns the rows of the list.
func rows(t *testing.T, response *httptest.ResponseRecorder) (all []string) {
	t.Helper()
	require.Equal(t, http.StatusOK, response.Code, response.Body.String())
	for node := range requireHTML(t, response.Body.String()).Descendants() {
		if node.Data != "tr" || node.Parent.Data != "tbody" {
			continue
		}
		var cells []string
		for cell := range node.ChildNodes() {
			var text strings.Builder
			for n := range cell.Descendants() {
				if n.Type == html.TextNode && (n.Parent.Data != "span" || !strings.Contains(n.Parent.Attr[0].Val, "quiet")) {
					text.WriteString(n.Data)
				}
			}
			cells = append(cells, strings.TrimSpace(text.String()))
		}
		all = append(all, cells[0]+"/"+cells[1]+" "+cells[2])
	}
	return all
}

// TestTheListTellsHowMuchARunHasPrinted has the PipelineRun of six steps, of which the log service
// says 1,000 bytes each, and asks without a log service.
func TestTheListTellsHowMuchARunHasPrinted(t *testing.T) {
	t.Parallel()
	cluster := pagetest.New()
	handler := served(t, cluster)
	const column, cell = `<th scope="col" class="number">Printed</th>`, `<td class="number" title="6000 bytes"><span aria-hidden="true">5.9 KiB</span><span class="unseen">6000 bytes</span></td><td>kept</td>`
	body := get(handler, list).Body.String()
	require.Contains(t, body, column)
	require.Equal(t, 1, strings.Count(body, cell))
	require.Contains(t, body, `<td class="number"></td><td></td></tr>`, "nothing is known of the Job")
	cluster.Refuse("logs", http.StatusNotFound)
	body = get(handler, list).Body.String()
	require.Contains(t, body, "report")
	require.NotContains(t, body, column)
}

// TestALongListHasPages follows the links from the newest to the oldest runs and back.
func TestALongListHasPages(t *testing.T) {
	t.Parallel()
	cluster := pagetest.New()
	for at := range 450 {
		name := fmt.Sprintf("many-%03d", at)
		cluster.Set("jobs", name, map[string]any{"metadata": map[string]any{"name": name, "creationTimestamp": pagetest.Noon.Add(-time.Duration(at) * time.Hour)}})
	}
	handler := served(t, cluster)
	var seen, back []string
	for _, way := range []struct {
		rel string
		to  *[]string
	}{{"next", &seen}, {"prev", &back}} {
		at := "?q=many"
		if way.rel == "prev" {
			at = "?page=3&q=many"
		}
		for at != "" {
			response := get(handler, list+at)
			*way.to = append(*way.to, rows(t, response)...)
			at = ""
			for node := range requireHTML(t, response.Body.String()).Descendants() {
				if node.Data == "a" && attribute(node, "rel") == way.rel {
					at = attribute(node, "href")
				}
			}
		}
	}
	require.Len(t, seen, 450)
	require.Equal(t, "job/many-000 waiting", seen[0])
	require.Equal(t, "job/many-449 waiting", seen[449])
	require.ElementsMatch(t, seen, back)
	require.Len(t, rows(t, get(handler, list+"?q=many&page=99")), 50, "the last page")
	require.Len(t, rows(t, get(handler, list+"?q=many&page=-1")), 200, "the first page")
}

// attribute returns an attribute of an element, "" if it has none.
func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// TestTheDrawingAndThePageHaveTheSameColors compares the two stylesheets, in both schemes.
func TestTheDrawingAndThePageHaveTheSameColors(t *testing.T) {
	t.Parallel()
	colors := func(file, before, pattern string) map[string]string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		light, dark, isBoth := strings.Cut(string(text), "@media (prefers-color-scheme: dark)")
		require.True(t, isBoth)
		dark, _, _ = strings.Cut(dark, before)
		found := map[string]string{}
		for scheme, style := range map[string]string{"light": light, "dark": dark} {
			for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(style, -1) {
				found[scheme+" "+match[1]] = match[2]
			}
		}
		return found
	}
	drawing := colors("../timeline/plot.svg.tmpl", "</style>", `\.([a-z]+) \{ fill: (#[0-9a-f]+)`)
	onPage := colors("assets/page.css", "\n}\n", `--([a-z]+): (#[0-9a-f]+)`)
	require.Greater(t, len(drawing), 15)
	for name, color := range drawing {
		if !strings.HasSuffix(name, " page") {
			require.Equal(t, color, onPage[name], name)
		}
	}
}

func TestWhatCantBeListedIsTold(t *testing.T) {
	t.Parallel()
	cluster := pagetest.New()
	handler := served(t, cluster)
	require.Contains(t, get(handler, list).Body.String(), "The cluster has no services, revisions, workflows.")
	cluster.Refuse("pods", http.StatusForbidden)
	body := get(handler, list+"?parts=on").Body.String()
	require.Contains(t, body, "You may not list pods (kubectl auth can-i list pods).")
	require.Contains(t, rows(t, get(handler, list+"?parts=on")), "pod/nightly-pod unknown", "it may exist")
	for _, plural := range []string{"deployments", "statefulsets", "daemonsets", "jobs", "taskruns", "pipelineruns", "services", "revisions", "workflows", "logs"} {
		cluster.Refuse(plural, http.StatusForbidden)
	}
	refused := get(handler, list)
	require.Equal(t, http.StatusForbidden, refused.Code)
	require.Contains(t, refused.Body.String(), "You may not read that")
}

// TestAPageOfARun compares the page of a PipelineRun with a file.
func TestAPageOfARun(t *testing.T) {
	t.Parallel()
	handler := served(t, pagetest.New())
	response := get(handler, release)
	require.Equal(t, http.StatusOK, response.Code)
	golden := "testdata/release.html"
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, response.Body.Bytes(), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), response.Body.String(), "run the test with -update if the change is meant")
}

// TestEachBarLeadsToTheRowThatSaysTheSame follows the links of the chart.
func TestEachBarLeadsToTheRowThatSaysTheSame(t *testing.T) {
	t.Parallel()
	root := requireHTML(t, get(served(t, pagetest.New()), release).Body.String())
	ids, links := map[string]int{}, 0
	for node := range root.Descendants() {
		if id := attribute(node, "id"); id != "" {
			ids[id]++
		}
	}
	for node := range root.Descendants() {
		if id := strings.TrimPrefix(attribute(node, "href"), "#"); strings.HasPrefix(id, "span-") {
			links++
			require.Equal(t, 1, ids[id], id)
			require.NotEmpty(t, attribute(node, "aria-label"))
		}
	}
	require.Equal(t, strings.Count(get(served(t, pagetest.New()), release).Body.String(), `<tr id="span-`), links)
	require.Greater(t, links, 20)
	for id, n := range ids {
		require.Equal(t, 1, n, "%q is there more than once", id)
	}
}

func TestARunThatGoesOnIsAskedForAgain(t *testing.T) {
	t.Parallel()
	handler := served(t, pagetest.New())
	for path, seconds := range map[string]string{release: "0", "/namespaces/team-a/deployment/web/": "2", "/namespaces/team-a/taskrun/nightly/": "0", list: "10"} {
		require.Contains(t, get(handler, path).Body.String(), `data-part data-seconds="`+seconds+`"`, path)
	}
}

// TestSupervisorsArentAskedByEachUpdate asks for the page of a Deployment twice.
func TestSupervisorsArentAskedByEachUpdate(t *testing.T) {
	t.Parallel()
	cluster := pagetest.New()
	p := pagetest.WebPod(0)
	api := &p.Spec.Containers[1]
	api.Command, api.Args = []string{pod.EntrypointPath}, []string{"--", "serve"}
	api.VolumeMounts = []corev1.VolumeMount{{Name: pod.VolumeName, MountPath: pod.MountPath, ReadOnly: true}}
	cluster.Set("pods", p.Name, p)
	var asked atomic.Int32
	handler := page.New(page.Options{
		Client: objectstest.Client(t, pagetest.Namespace, cluster), Now: func() time.Time { return pagetest.Now },
		Statuses: func(c *objects.Client) *podstatus.Reader {
			return &podstatus.Reader{Client: *c, Exec: func(context.Context, string, string, ...string) ([]byte, error) {
				asked.Add(1)
				return []byte(`{"phase":"Running"}`), nil
			}}
		},
	})
	for range 2 {
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/namespaces/team-a/deployment/web/", nil))
		require.Equal(t, http.StatusOK, response.Code)
	}
	require.EqualValues(t, 1, asked.Load())
}

// TestTheZoomOfAChartIsChosen asks for widths that there are, and for one that there isn't.
func TestTheZoomOfAChartIsChosen(t *testing.T) {
	t.Parallel()
	handler := served(t, pagetest.New())
	for query, class := range map[string]string{"": "chart zoom-1", "?zoom=4": "chart zoom-4", "?zoom=3": "chart zoom-1", "?zoom=%22%3E": "chart zoom-1"} {
		body := get(handler, release+query).Body.String()
		require.Contains(t, body, `<table class="`+class+`">`, query)
		require.Equal(t, 1, strings.Count(body, `#timeline" aria-current="true">`), query)
	}
}

func TestARunThatIsGoneIsToldByTheLogService(t *testing.T) {
	t.Parallel()
	body := get(served(t, pagetest.New()), "/namespaces/team-a/taskrun/nightly/").Body.String()
	require.Contains(t, body, "pod/nightly-pod</a>, which is gone")
	require.Contains(t, body, "exit code 2")
}

func TestTheSameCanBeSaved(t *testing.T) {
	t.Parallel()
	handler := served(t, pagetest.New())
	for file, begins := range map[string]string{"timeline.svg": "<svg ", "timeline.json": "{\n  \"target\": \"pipelinerun/release\"", "timeline.pftrace": "\n"} {
		response := get(handler, release+file)
		require.Equal(t, `attachment; filename="release-`+file+`"`, response.Header().Get("Content-Disposition"))
		require.True(t, strings.HasPrefix(response.Body.String(), begins), file)
	}
	require.Equal(t, http.StatusNotFound, get(handler, "/namespaces/team-a/pod/none/timeline.svg").Code)
}

// TestTheLogOfARunIsBelowIt asks for the parts of the log by their addresses.
func TestTheLogOfARunIsBelowIt(t *testing.T) {
	t.Parallel()
	handler := served(t, pagetest.New())
	require.Contains(t, get(handler, release).Body.String(), `data-log="/token`+release+`logs/"`)
	for _, file := range []string{"logview.css", "logview.mjs"} {
		require.Equal(t, http.StatusOK, get(handler, "/assets/log/"+file).Code, file)
	}
	const logs = "/namespaces/team-a/taskrun/release-build/logs/"
	var info struct {
		Version int
		Done    bool
	}
	for asks := "info"; !info.Done; asks = fmt.Sprintf("info?after=%d", info.Version) { // each response comes when something has changed
		response := get(handler, logs+asks)
		require.NoError(t, json.Unmarshal(response.Body.Bytes(), &info), response.Body.String())
	}
	text := get(handler, logs+"text")
	require.Equal(t, http.StatusOK, text.Code)
	require.Contains(t, text.Body.String(), "step compile begins")
	require.NotContains(t, text.Body.String(), "step unit begins", "of another TaskRun")
	require.Contains(t, text.Header().Get("Content-Security-Policy"), "default-src 'none'")
	require.Equal(t, http.StatusNotFound, get(handler, "/namespaces/team-a/po/x/logs/text").Code)
}

// TestServingEndsWithItsContext ends the server while a response is being made.
func TestServingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended, asked := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- page.Serve(ctx, listener, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(asked)
			<-r.Context().Done()
		}))
	}()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if response, err := http.Get("http://" + listener.Addr().String()); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	}()
	<-asked
	cancel()
	require.NoError(t, <-ended)
	<-answered
}
