// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// answersSearch is a log service that answers a search with a text of events, to which the end is
// appended.
func answersSearch(t *testing.T, events, end string) (config string, asked *url.Values) {
	t.Helper()
	mux, asked := http.NewServeMux(), &url.Values{}
	const logs = "GET /apis/logs.entrypointer.dev/v1alpha1/namespaces/tenant/logs"
	mux.HandleFunc(logs+"/search/log", func(w http.ResponseWriter, r *http.Request) {
		*asked = r.URL.Query()
		if end != "" {
			events += "event: end\ndata: " + end + "\n\n"
		}
		_, _ = fmt.Fprint(w, events)
	})
	mux.HandleFunc(logs, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{"logs":[]}`) })
	return kubeconfig(t, mux), asked
}

const streamEvent = `event: stream
data: {"id":"1","name":"stdout","pod":"p","container":"main","start":"1","namespace":"tenant","podUID":"u"}

:

`

// lineEvent is a line that is found.
func lineEvent(from int, text, more string) string {
	return fmt.Sprintf("event: line\ndata: {\"from\":%d,\"to\":%d,\"time\":1795000000007,\"match\":true,\"text\":%q%s}\n\n", from, from+len(text)+1, base64.StdEncoding.EncodeToString([]byte(text)), more)
}

func TestTheLogServiceSearches(t *testing.T) {
	t.Parallel()
	const complete = `{"complete":true,"found":3,"streams":1}`
	events := streamEvent + lineEvent(0, "one", "") + lineEvent(4, "two", "") + lineEvent(100, "three", "")
	for args, want := range map[string]string{
		"--grep=t":                              "[pod/p/main] one\n[pod/p/main] two\n[pod/p/main] three\n",
		"--grep=t -C1":                          "[pod/p/main] one\n[pod/p/main] two\n--\n[pod/p/main] three\n",
		"p --grep=t -c main":                    "one\ntwo\nthree\n",
		"p main --grep=t --timestamps":          "2026-11-18T11:06:40.007Z one\n2026-11-18T11:06:40.007Z two\n2026-11-18T11:06:40.007Z three\n",
		"taskrun/build --grep=t --prefix=false": "one\ntwo\nthree\n",
	} {
		config, asked := answersSearch(t, events, complete)
		out, warnings, err := said(append(strings.Fields(args), "--kubeconfig", config)...)
		require.NoError(t, err, args)
		require.Empty(t, warnings)
		require.Equal(t, want, out, args)
		require.Equal(t, "t", asked.Get("grep"))
		require.Equal(t, "1000", asked.Get("limit"))
	}
	config, asked := answersSearch(t, events, complete)
	_, err := runs("taskrun/build", "step-a", "--grep=(a|b)", "-i", "-A1", "-C2", "-B3", "--limit=7", "--stream=stderr", "--since-time=2026-11-18T12:06:40+01:00", "--kubeconfig", config)
	require.NoError(t, err)
	require.Equal(t, url.Values{
		"grep": {"(a|b)"}, "ignoreCase": {"true"}, "before": {"3"}, "after": {"2"}, "limit": {"7"}, "container": {"step-a"}, "stream": {"stderr"},
		"labelSelector": {"tekton.dev/taskRun=build"}, "since": {"2026-11-18T11:06:40Z"},
	}, *asked)
}

func TestTheExitCodeOfASearchIsThatOfGrep(t *testing.T) {
	t.Parallel()
	one := streamEvent + lineEvent(0, "one", `,"cut":true`)
	for name, c := range map[string]struct {
		events, end string
		code        int
		says        string
	}{
		"found":             {one, `{"complete":true,"found":1,"streams":1}`, 0, ""},
		"nothing":           {"", `{"complete":true,"streams":1}`, 79, ""},
		"nothing, and lost": {"", `{"complete":true,"streams":1,"dropped":5,"missing":7}`, 79, "Of what was searched, 5 bytes were dropped, 7 bytes are missing."},
		"as many as asked":  {one, `{"reason":"limit","found":1,"streams":1}`, 0, "the search has ended after 1000"},
		"too much":          {one, `{"reason":"bytes","found":1,"streams":1}`, 1, "isn't complete: there is more than"},
		"unread":            {streamEvent + "event: unread\ndata: {\"busy\":false}\n\n", `{"reason":"unread","streams":1}`, 1, "can't be read"},
		"later reasons":     {"", `{"reason":"moon","streams":1}`, 1, `isn't complete: "moon"`},
		"cut off":           {one, "", 1, "the response ends before the search"},
		"no logs":           {"", `{"complete":true}`, 1, "the log service has no logs of pod/p"},
	} {
		config, _ := answersSearch(t, c.events, c.end)
		_, warnings, err := said("p", "--grep=t", "--kubeconfig", config)
		require.Equal(t, c.code, exitCode(err), "%s: %v", name, err)
		if err != nil {
			warnings += err.Error()
		}
		require.Contains(t, warnings, c.says, name)
	}
}

func TestLinesThatAreFoundAreDeleted(t *testing.T) {
	t.Parallel()
	mux, bodies := http.NewServeMux(), []string{}
	const logs = " /apis/logs.entrypointer.dev/v1alpha1/namespaces/tenant/logs/"
	mux.HandleFunc("GET"+logs+"search/log", func(w http.ResponseWriter, r *http.Request) {
		found := ""
		if r.URL.Query().Get("grep") == "t" {
			found = streamEvent + lineEvent(0, "one", "") + lineEvent(4, "two", "") + lineEvent(100, "three", "") +
				strings.NewReplacer(`"id":"1"`, `"id":"2"`, "stdout", "stderr").Replace(streamEvent) + lineEvent(7, "four", "")
		}
		_, _ = fmt.Fprint(w, found+`event: end`+"\n"+`data: {"complete":true,"found":4,"streams":2}`+"\n\n")
	})
	mux.HandleFunc("DELETE"+logs+"{id}", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Content-Type") != "application/json" {
			w.WriteHeader(http.StatusBadRequest)
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("dryRun") == "All" {
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
			return
		}
		bodies = append(bodies, r.PathValue("id")+string(body))
		if len(bodies) > 3 {
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
			return
		}
		_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success","message":"deleted"}`)
	})
	config := kubeconfig(t, mux)
	run := func(args ...string) (string, error) {
		out, _, err := runsCommand(rootCommand(), "", append([]string{"delete-logs", "p", "--kubeconfig", config}, args...)...)
		return out, err
	}
	out, err := run("--grep=t", "--dry-run")
	require.NoError(t, err)
	require.Equal(t, "[pod/p/main] one\n[pod/p/main] two\n[pod/p/main] three\n[pod/p/main] four\npod/p/main stdout: not deleted 3 lines (dry run)\npod/p/main stderr: not deleted 1 lines (dry run)\n", out)
	require.Empty(t, bodies)
	out, err = run("--grep=t")
	require.NoError(t, err)
	require.Equal(t, "pod/p/main stdout: deleted 3 lines\npod/p/main stderr: deleted 1 lines\n", out)
	require.Equal(t, []string{`1{"kind":"DeleteOptions","apiVersion":"v1","ranges":["0-7","100-105"]}`, `2{"kind":"DeleteOptions","apiVersion":"v1","ranges":["7-11"]}`}, bodies)
	out, err = run("--grep=t")
	require.ErrorContains(t, err, `deleting lines of stderr of container "main" of pod "p" in namespace "tenant"`)
	require.ErrorContains(t, err, "a release that deletes no lines")
	require.Equal(t, "pod/p/main stdout: deleted 3 lines\npod/p/main stderr: failed\n", out)
	_, err = run("--grep=(")
	require.Equal(t, exitUsage, exitCode(err))
}
