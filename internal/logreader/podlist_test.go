// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/target"
)

// listed returns the names of the pods of a list.
func (c *cluster) listed(o PodsOptions) (pods Pods, names string) {
	c.t.Helper()
	if o.Limit == 0 {
		o.Limit = 100
	}
	pods, err := c.client.ListPods(c.t.Context(), o)
	require.NoError(c.t, err)
	for _, p := range pods.Pods {
		names += p.Name + " "
	}
	return pods, strings.TrimSpace(names)
}

func named(t *testing.T, text string) target.Target {
	t.Helper()
	parsed, err := target.Parse(text, target.All())
	require.NoError(t, err)
	return parsed
}

func TestThePodsThatHaveLogsAreListed(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.gone = true
	_, names := c.listed(PodsOptions{})
	require.Empty(t, names)
	for at, pod := range []struct {
		name string
		kept labels.Set
	}{
		{"report-29929875-a", labels.Set{"entrypointer.dev/job": "report-29929875", "entrypointer.dev/cronjob": "report"}},
		{"report-29929876-b", labels.Set{"entrypointer.dev/job": "report-29929876", "entrypointer.dev/cronjob": "report"}},
		{"web-7d4b9-c", labels.Set{"tekton.dev/taskRun": "build"}},
	} {
		c.labelled(pod.name, int64(at), pod.kept)
		time.Sleep(20 * time.Millisecond) // the clock of files
	}
	_, err := c.store.Create(t.Context(), streams.Source{
		Namespace: "tenant", Pod: "web-7d4b9-c", PodUID: "uid-web-7d4b9-c", Container: "proxy", Start: start(9), Name: "stdout", Labels: labels.Set{"tekton.dev/taskRun": "build"},
	})
	require.NoError(t, err)
	pods, names := c.listed(PodsOptions{})
	require.Equal(t, "web-7d4b9-c report-29929876-b report-29929875-a", names)
	require.False(t, pods.Pods[0].Complete)
	require.True(t, pods.Pods[1].Complete)
	require.Equal(t, 2, pods.Pods[0].Runs)
	selector, err := labels.Parse("tekton.dev/taskRun=build")
	require.NoError(t, err)
	for want, o := range map[string]PodsOptions{
		"report-29929875-a":                   {Target: named(t, "job/report-29929875")},
		"report-29929876-b report-29929875-a": {Target: named(t, "cj/report")},
		"web-7d4b9-c":                         {Selector: selector},
		"report-29929876-b":                   {Target: named(t, "report-29929876-b")},
		"":                                    {Span: Span{Since: time.Now().Add(time.Hour)}},
		"web-7d4b9-c report-29929876-b":       {Limit: 2},
		"web-7d4b9-c report-29929876-b report-29929875-a": {Span: Span{time.Now().Add(-time.Hour), time.Now().Add(time.Hour)}},
	} {
		_, names := c.listed(o)
		require.Equal(t, want, names, want)
	}
	_, names = c.listed(PodsOptions{Target: named(t, "report-29929876-b"), Span: Span{Since: time.Now().Add(time.Hour)}})
	require.Empty(t, names)
	_, names = c.listed(PodsOptions{Target: named(t, "report-29929876-b"), Span: Span{Until: time.Now().Add(-time.Hour)}})
	require.Empty(t, names)
	_, names = c.listed(PodsOptions{Span: Span{Until: time.Now().Add(-time.Hour)}})
	require.Empty(t, names)
	pods, _ = c.listed(PodsOptions{Limit: 1})
	require.Equal(t, int64(2), pods.Remaining)

	var out bytes.Buffer
	pods.Pods[0].Partial = true
	require.NoError(t, pods.Print(&out, true))
	text := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`).ReplaceAllString(out.String(), "(the time of today)")
	require.Equal(t, `POD           OWNER           CONTAINERS   RUNS   FIRST                  LAST                   COMPLETE   HELD    PODS   STREAMS
web-7d4b9-c   taskrun/build   main,proxy   2+     (the time of today)   (the time of today)   false      false   1      2
`, text)
}

// A container's name comes from the pod, which its author may have told anything.
func TestAListEscapesWhatPodsHaveSaid(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, Pods{Pods: []PodLogs{{Name: "p", Containers: []string{"a\x1b[2J", "b\nc"}}}}.Print(&out, false))
	require.Contains(t, out.String(), `a\x1b[2J,b\nc`)
	require.Contains(t, out.String(), "p     -", "without an owner")
}

func TestAllPagesOfAListAreRead(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		after := r.URL.Query().Get("continue")
		next := map[string]string{"": "1", "1": "2", "2": ""}[after]
		_, _ = fmt.Fprintf(w, `{"kind":"LogList","metadata":{"continue":%q,"remainingItemCount":7},"items":[{"metadata":{"name":"p%s-%s"}}],"incomplete":true}`, next, after, r.URL.Query().Get("limit"))
	}))
	defer server.Close()
	for limit, want := range map[int]string{1: "p-1", 2: "p-2 p1-1", 600: "p-600 p1-599 p2-598"} {
		pods, names := (&cluster{t: t, client: clientOf(t, server.URL)}).listed(PodsOptions{Limit: limit})
		require.Equal(t, want, names)
		require.True(t, pods.Incomplete)
		require.Equal(t, int64(7), pods.Remaining)
	}
}

func TestANameWithoutLogsHasSimilarOnesThatDo(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	_, err := c.printed("web-7d4b9c6d8-abcde", nil)
	require.ErrorContains(t, err, "no logs of pod/web-7d4b9c6d8-abcde")
	require.NotContains(t, err.Error(), "--list", "there are none")
	c.labelled("web-7d4b9c6d8-x2v4q", 0, labels.Set{"entrypointer.dev/deployment": "web"})
	c.labelled("report-a", 1, labels.Set{"entrypointer.dev/job": "report"})
	c.gone = true
	const all = "kubectl entrypointer logs --list -n tenant shows which pods have logs"
	for name, similar := range map[string]string{
		"web-7d4b9c6d8-abcde": "; similar names have logs: web-7d4b9c6d8-x2v4q; " + all,
		"job/reprot":          "; similar names have logs: report; " + all,
		"deploy/we":           "; similar names have logs: web; " + all,
		"db-0":                "or tee; " + all,
	} {
		for _, follow := range []bool{false, true} {
			if follow && strings.HasPrefix(name, "deploy") {
				continue // it has no end
			}
			_, err := c.printed(name, func(o *Options) { o.Follow = follow })
			require.ErrorContains(t, err, similar, name)
		}
	}
	_, err = c.client.ListPods(t.Context(), PodsOptions{Target: named(t, "report-b"), Limit: 1})
	require.ErrorContains(t, err, "similar names have logs: report-a")
	_, err = c.printed("job/report", func(o *Options) { o.Stream = "stderr" })
	require.ErrorContains(t, err, "no logs of job/report")
	require.NotContains(t, err.Error(), "--list", "the name is right")
}

func TestAListThatFailsSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for status, says := range map[int]string{
		http.StatusNotFound: "the cluster has no log service", http.StatusForbidden: "you need the right to get pods/log of", http.StatusServiceUnavailable: "the log service doesn't respond",
		http.StatusBadRequest: "the server rejected our request", http.StatusOK: "unexpected end of JSON input",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		defer server.Close()
		for _, o := range []PodsOptions{{Limit: 1}, {Limit: 1, Target: named(t, "p")}, {Limit: 1, Target: named(t, "job/p")}} {
			_, err := clientOf(t, server.URL).ListPods(t.Context(), o)
			require.ErrorContains(t, err, says)
			require.ErrorContains(t, err, `in namespace "tenant"`)
		}
	}
}
