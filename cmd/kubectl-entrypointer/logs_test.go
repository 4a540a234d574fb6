// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/test/jsonschema"
)

// kubeconfig returns the path of a kubeconfig with a stand-in for the API server, and
// with a namespace.
func kubeconfig(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c",
		"clusters":[{"name":"c","cluster":{"server":%q}}],
		"contexts":[{"name":"c","context":{"cluster":"c","namespace":"tenant"}}]}`, server.URL), 0o600))
	return path
}

func runs(args ...string) (stdout string, err error) {
	stdout, _, err = said(args...)
	return stdout, err
}

// said is what a command prints, and its warnings.
func said(args ...string) (stdout, stderr string, err error) {
	command := logsCommand()
	var out, warnings bytes.Buffer
	command.SetOut(&out)
	command.SetErr(&warnings)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(args)
	err = command.Execute()
	return out.String(), warnings.String(), err
}

func TestLogsComeFromKubectlsNamespace(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	const logs = "GET /apis/logs.entrypointer.dev/v1alpha1/namespaces/tenant/logs"
	mux.HandleFunc(logs, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("label") == "tekton.dev/taskRun=build" {
			_, _ = fmt.Fprint(w, `{"logs":[{"id":"1","name":"stdout","pod":"build-pod","container":"step-a","start":"1"},{"id":"2","name":"events","pod":"build-pod","container":"step-a","start":"1"}],"more":true}`)
		}
	})
	mux.HandleFunc(logs+"/1/log", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "event: data\nid: 3\ndata: {\"from\":0,\"to\":3,\"data\":\"aGkK\",\"times\":[[0,1795000000007]]}\n\nevent: end\ndata: {}\n\n")
	})
	mux.HandleFunc(logs+"/2/log", func(w http.ResponseWriter, _ *http.Request) {
		const event = `{"time":"2026-11-18T05:46:40.007Z","event":"exited","exitCode":1}` + "\n"
		_, _ = fmt.Fprintf(w, "event: data\nid: 3\ndata: {\"from\":0,\"to\":%d,\"data\":%q,\"times\":[[0,1795000000007]]}\n\nevent: end\ndata: {}\n\n", len(event), base64.StdEncoding.EncodeToString([]byte(event)))
	})
	for _, id := range []string{"/1", "/2"} {
		mux.HandleFunc(logs+id, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{"stored":["0-2"]}`) })
	}
	config := kubeconfig(t, mux)
	for flag, want := range map[string]string{
		"--color=auto": "hi\n", "--color=never": "hi\n", "--prefix": "[pod/build-pod/step-a] hi\n", "--color=always": "\x1b[36mhi\x1b[0m\n",
		"--timestamps": "2026-11-18T11:06:40.007Z hi\n", "--since=87600h": "hi\n", "--tail=5 --grep=^h.$": "hi\n", "--tail=5 --grep=^H.$ -i": "hi\n", "--tail=5 --grep=ho": "", "--since=1ns": "", "--since-time=2026-11-18T11:06:40Z": "hi\n", "--since-time=2026-11-18T12:06:40+01:00": "hi\n", "--since-time=2026-11-18T11:06:41Z": "",
		"--until=1ns": "hi\n", "--until=87600h": "", "--until=2026-11-18T11:06:41Z": "hi\n", "--until=2026-11-18T12:06:40+01:00": "",
		"--events": "2026-11-18T11:06:40.007Z exited exitCode=1\n", "--events --output=json": `{"time":"2026-11-18T05:46:40.007Z","event":"exited","exitCode":1}` + "\n",
	} {
		out, err := runs(append([]string{"--kubeconfig", config, "taskrun/build"}, strings.Fields(flag)...)...)
		require.NoError(t, err)
		require.Equal(t, want, out, flag)
	}
	out, err := runs("--kubeconfig", config, "taskrun/build", "step-a")
	require.NoError(t, err)
	require.Equal(t, "hi\n", out)
	_, err = runs("--kubeconfig", config, "taskrun/build", "b")
	require.ErrorContains(t, err, `there is no container "b": use step-a; did you mean "step-a"?`)
	_, err = runs("--kubeconfig", config, "-n", "other", "taskrun/build")
	require.ErrorContains(t, err, "ko apply -f config/logs")
}

func TestALogThatWasCutOffHasAnExitCodeOfItsOwn(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	const logs = "GET /apis/logs.entrypointer.dev/v1alpha1/namespaces/tenant/logs"
	mux.HandleFunc(logs, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"logs":[{"id":"1","name":"stdout","pod":"p","container":"main","start":"1"}]}`)
	})
	mux.HandleFunc(logs+"/1/log", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "event: data\nid: 3\ndata: {\"from\":0,\"to\":3,\"data\":\"aGkK\",\"times\":[[0,1795000000007]]}\n\n")
	})
	mux.HandleFunc(logs+"/1", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{"stored":["0-2"]}`) })
	config := kubeconfig(t, mux) // has no pod
	for _, flag := range []string{"--tail=-1", "--tail=0", "--since=87600h"} {
		_, err := runs("--kubeconfig", config, "p", flag)
		require.Equal(t, 3, exitCode(err), "%s: %v", flag, err)
	}
	_, err := runs("--kubeconfig", config, "-n", "other", "p")
	require.Equal(t, 1, exitCode(err))
	require.Equal(t, 0, exitCode(nil))
}

func TestInvalidFlagsAreRefused(t *testing.T) {
	t.Parallel()
	for says, args := range map[string][]string{
		"--grep is \"(\"":                          {"p", "--grep", "("},
		"isn't negative":                           {"p", "--since=-1s"},
		"use one of them":                          {"p", "--since=1s", "--since-time=2026-11-18T05:46:40Z"},
		"use a time such as":                       {"p", "--since-time=yesterday"},
		"use json, with --events":                  {"p", "--output=json"},
		`--output is "yaml"`:                       {"p", "--events", "-o", "yaml"},
		"a stream of their own":                    {"p", "--events", "--stream=stdout"},
		"use stdout or stderr":                     {"p", "--stream", "stdin"},
		"use auto, always or never":                {"p", "--color", "red"},
		"use TYPE/NAME":                            {"secret/p"},
		"--previous and --follow are both set":     {"p", "-p", "-f"},
		"name one object, as TYPE/NAME":            {},
		"or labels of pods by --selector":          {"p", "-l", "app=web"},
		"--selector is \"app in web\"":             {"-l", "app in web"},
		"accepts at most 2 arg(s), received 3":     {"p", "main", "q"},
		`"main" and --container are both set`:      {"p", "main", "-c", "main"},
		"finding the cluster":                      {"p", "--kubeconfig", "/none"},
		"invalid argument \"x\" for \"--tail\"":    {"p", "--tail", "x"},
		"use --tail to print fewer lines":          {"p", "--limit", "5"},
		"--limit is 100001: use 100000 at most":    {"p", "--grep", "x", "--limit", "100001"},
		"set without --grep":                       {"p", "-A", "5"},
		"of no use with --follow":                  {"p", "--grep", "x", "-f", "-C", "5"},
		"but 0 to 100":                             {"p", "--grep", "x", "-B", "101"},
		"--list and --ignore-case are both set":    {"--list", "-i"},
		"--list and --follow are both set":         {"--list", "-f"},
		"--list and --tail are both set":           {"--list", "p", "--tail", "5"},
		"--limit is 0: use a number above 0":       {"--list", "--limit", "0"},
		"--list takes one object":                  {"--list", "p", "main"},
		"or none of them for all pods":             {"--list", "p", "-l", "tekton.dev/taskRun=build"},
		"with --list, use a value of one of":       {"--list", "-l", "app=web"},
		"labels such as tekton.dev/taskRun":        {"--list", "-l", "app in web"},
		"use json, yaml or wide":                   {"--list", "-o", "name"},
		"reading \"secret/p\"":                     {"--list", "secret/p"},
		"--since-time is \"yesterday\"":            {"--list", "--since-time", "yesterday"},
		"--until is \"yesterday\": use a duration": {"p", "--until=yesterday"},
		"--until is \"-1s\": use a duration":       {"p", "--until=-1s"},
		"which isn't after":                        {"p", "--since=1s", "--until=2s"},
		"--until and --follow are both set":        {"p", "--until=1s", "-f"},
		"--until is \"tomorrow\"":                  {"--list", "--until", "tomorrow"},
	} {
		_, err := runs(args...)
		require.ErrorContains(t, err, says)
	}
}

func TestPodsWithLogsAreListed(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	const logs = "GET /apis/logs.entrypointer.dev/v1alpha1/namespaces/tenant/logs"
	mux.HandleFunc(logs, func(w http.ResponseWriter, r *http.Request) {
		switch q := r.URL.Query(); {
		case q.Has("since"), q.Get("labelSelector") == "entrypointer.dev/job=none":
			_, _ = fmt.Fprint(w, `{"kind":"LogList","items":[]}`)
		case q.Get("labelSelector") == "", q.Get("labelSelector") == "tekton.dev/taskRun=build":
			_, _ = fmt.Fprintf(w, `{"kind":"LogList","metadata":{"remainingItemCount":12,"continue":"x"},"incomplete":true,"items":[{"metadata":{"name":"report-a"},
				"status":{"owner":"job/report","firstStreamTime":"2026-11-26T03:00:00Z","lastStreamTime":"2026-11-26T03:00:01Z","containers":["main"],"runs":1,"pods":1,"streams":3}}]}`)
		}
	})
	config := kubeconfig(t, mux)
	for _, args := range [][]string{{"--limit=1"}, {"--limit=1", "-l", "tekton.dev/taskRun=build"}} {
		out, warnings, err := said(append(args, "--list", "--kubeconfig", config)...)
		require.NoError(t, err)
		require.Equal(t, "POD        OWNER        CONTAINERS   RUNS   FIRST                  LAST\nreport-a   job/report   main         1      2026-11-26T03:00:00Z   2026-11-26T03:00:01Z\n", out)
		require.Contains(t, warnings, "There are 12 more pods: --limit 13 lists them as well")
		require.Contains(t, warnings, "more logs than the log service searches")
	}
	for _, format := range []string{"json", "yaml"} {
		out, warnings, err := said("--list", "--limit=1", "--kubeconfig", config, "-o", format)
		require.NoError(t, err)
		require.Empty(t, warnings)
		document, err := yaml.YAMLToJSON([]byte(out))
		require.NoError(t, err)
		require.NoError(t, jsonschema.Check(cliSchema, "logs", document))
		require.Contains(t, string(document), `"remaining":12`)
	}
	out, warnings, err := said("--list", "job/none", "--kubeconfig", config)
	require.NoError(t, err)
	require.Empty(t, out)
	require.Equal(t, "In namespace \"tenant\", no pod of job/none has logs.\n", warnings)
	_, warnings, err = said("--list", "--since-time", "2026-11-26T04:00:00+01:00", "--kubeconfig", config)
	require.NoError(t, err)
	require.Equal(t, "In namespace \"tenant\", no pod has begun to print since 2026-11-26T03:00:00Z, and has logs.\n", warnings)
	_, warnings, err = said("--list", "--since-time", "2026-11-26T04:00:00+01:00", "--until", "2026-11-26T04:00:00Z", "--kubeconfig", config)
	require.NoError(t, err)
	require.Equal(t, "In namespace \"tenant\", no pod has begun to print since 2026-11-26T03:00:00Z before 2026-11-26T04:00:00Z, and has logs.\n", warnings)
	_, err = runs("--list", "--kubeconfig", config, "-n", "other")
	require.Equal(t, 1, exitCode(err))
}

func TestLogsAreDeletedAndHeldByThePlugin(t *testing.T) {
	t.Parallel()
	const logs = " /apis/logs.entrypointer.dev/v1alpha1/namespaces/tenant/logs/"
	mux := http.NewServeMux()
	deletions := 0
	mux.HandleFunc("DELETE"+logs+"web", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if deletions++; deletions == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503,"message":"7 streams are left"}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Success","message":"deleted 2 streams of %s, dry run %s"}`, r.URL.Query().Get("container"), r.URL.Query().Get("dryRun"))
	})
	for _, method := range []string{"POST", "DELETE"} {
		mux.HandleFunc(method+logs+"{name}/hold", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.PathValue("name") != "web" && r.URL.Query().Get("label") != "tekton.dev/taskRun=build" {
				w.WriteHeader(http.StatusBadRequest)
			}
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
		})
	}
	config := kubeconfig(t, mux)
	for _, test := range []struct{ args, want string }{
		{"delete-logs web main", "pod/web: deleted 2 streams of main, dry run \n"},
		{"delete-logs web --dry-run", "pod/web: not deleted 2 streams of , dry run All (dry run)\n"},
		{"hold-logs web", "the logs of pod/web are held\n"},
		{"hold-logs taskrun/build", "the logs of taskrun/build are held\n"},
		{"release-logs taskrun/build", "the logs of taskrun/build are released\n"},
	} {
		out, _, err := runsCommand(rootCommand(), "", append(strings.Fields(test.args), "--kubeconfig", config)...)
		require.NoError(t, err, test.args)
		require.Equal(t, test.want, out)
	}
	_, _, err := runsCommand(rootCommand(), "", "delete-logs", "web", "-i", "--kubeconfig", config)
	require.ErrorContains(t, err, "without --grep")
	_, _, err = runsCommand(rootCommand(), "", "hold-logs", "job/x", "--kubeconfig", config)
	require.ErrorContains(t, err, `holding the logs of job/x in namespace "tenant"`)
	_, _, err = runsCommand(rootCommand(), "", "delete-logs", "--kubeconfig", config)
	require.Equal(t, exitUsage, exitCode(err))
}
