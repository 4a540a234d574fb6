// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/page"
	"github.com/entrypointer/entrypointer/internal/page/pagetest"
	"github.com/entrypointer/entrypointer/internal/tracelink"
)

// tracesAt has a page link to traces.
func tracesAt(t *testing.T, template string) func(*page.Options) {
	t.Helper()
	traces, err := tracelink.Parse(template)
	require.NoError(t, err)
	return func(o *page.Options) { o.Traces = traces }
}

// elsewhere returns the links of a page that lead to another site, each with its name.
func elsewhere(t *testing.T, body string) map[string]string {
	t.Helper()
	links := map[string]string{}
	for node := range requireHTML(t, body).Descendants() {
		if href := attribute(node, "href"); strings.Contains(href, "//") {
			name := attribute(node, "aria-label")
			if name == "" && node.FirstChild != nil && node.FirstChild.Type == html.TextNode {
				name = node.FirstChild.Data
			}
			require.Equal(t, "noreferrer", attribute(node, "rel"), href)
			links[href] = name
		}
	}
	return links
}

func TestARunHasALinkToItsTrace(t *testing.T) {
	t.Parallel()
	const address = "https://jaeger.example:8443/trace/" + pagetest.ReleaseTrace
	handler := served(t, pagetest.New(), tracesAt(t, "https://jaeger.example:8443/trace/{traceID}"))
	for _, path := range []string{release, "/namespaces/team-a/taskrun/release-build/", "/namespaces/team-a/pod/release-lint-pod/"} {
		require.Equal(t, map[string]string{address: "Trace at jaeger.example:8443"}, elsewhere(t, get(handler, path).Body.String()), path)
	}
	for _, path := range []string{list, "/namespaces/team-a/job/report/", "/namespaces/team-a/taskrun/nightly/", "/namespaces/team-a/pod/hostile/"} {
		require.Empty(t, elsewhere(t, get(handler, path).Body.String()), "%s isn't traced", path)
	}
	require.Empty(t, elsewhere(t, get(served(t, pagetest.New()), release).Body.String()), "nobody has said where traces are")
}

// TestPodsWithTracesOfTheirOwnHaveALinkEach has a Deployment, whose trace begins with each pod.
func TestPodsWithTracesOfTheirOwnHaveALinkEach(t *testing.T) {
	t.Parallel()
	cluster := pagetest.New()
	want := map[string]string{}
	for name, uid := range map[string]string{"web-1": "11111111-16cd-43dd-8448-eb211c80319c", "web-2": "22222222-16cd-43dd-8448-eb211c80319c"} {
		p := pagetest.TracedPod(name)
		p.UID = types.UID(uid)
		cluster.Set("pods", name, p)
		want["https://jaeger.example/trace/"+strings.ReplaceAll(uid, "-", "")] = "Trace at jaeger.example of pod/" + name
	}
	handler := served(t, cluster, tracesAt(t, "https://jaeger.example/trace/{traceID}"))
	require.Equal(t, want, elsewhere(t, get(handler, "/namespaces/team-a/deployment/web/").Body.String()))
	require.Len(t, elsewhere(t, get(handler, "/namespaces/team-a/pod/web-1/").Body.String()), 1)
}

// The template is the operator's, and is escaped as what tenants write is.
func TestATemplateIsEscaped(t *testing.T) {
	t.Parallel()
	body := get(served(t, pagetest.New(), tracesAt(t, `https://grafana.example/explore?left={"q":"{traceID}"}&x='><script>`)), release).Body.String()
	require.Equal(t, map[string]string{`https://grafana.example/explore?left=%7b%22q%22:%22` + pagetest.ReleaseTrace + `%22%7d&x=%27%3e%3cscript%3e`: "Trace at grafana.example"}, elsewhere(t, body))
}

// TestTheLogServiceSaysWhereTracesAre has an operator say it, once for all users, and a user say
// something else.
func TestTheLogServiceSaysWhereTracesAre(t *testing.T) {
	t.Parallel()
	cluster := pagetest.New()
	cluster.LinkTraces("https://jaeger.example/trace/{traceID}")
	var asked atomic.Int32
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/logs.entrypointer.dev/v1alpha1" {
			asked.Add(1)
		}
		cluster.ServeHTTP(w, r)
	})
	handler := served(t, counted)
	require.Empty(t, elsewhere(t, get(handler, "/namespaces/team-a/job/report/").Body.String()))
	require.Zero(t, asked.Load(), "the Job isn't traced")
	for range 3 {
		require.Equal(t, map[string]string{"https://jaeger.example/trace/" + pagetest.ReleaseTrace: "Trace at jaeger.example"}, elsewhere(t, get(handler, release).Body.String()))
	}
	require.EqualValues(t, 1, asked.Load(), "the answer is kept")
	users := served(t, counted, tracesAt(t, "https://grafana.example/{traceID}"))
	require.Equal(t, map[string]string{"https://grafana.example/" + pagetest.ReleaseTrace: "Trace at grafana.example"}, elsewhere(t, get(users, release).Body.String()))
	require.EqualValues(t, 1, asked.Load(), "the user has said it")
	cluster.LinkTraces("javascript:alert('{traceID}')")
	require.Empty(t, elsewhere(t, get(served(t, counted), release).Body.String()))
	require.EqualValues(t, 2, asked.Load())
}
