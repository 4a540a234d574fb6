// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/test/jsonschema"
)

// twoPods is an API server with the pods wrapped and plain, in an opted-in namespace.
func twoPods() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/tenant", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"metadata":{"annotations":{"entrypointer.dev/inject":"true"},"labels":{"entrypointer.dev/inject":"true"}}}`)
	})
	containers := map[string]string{
		"wrapped": `{"name":"main","image":"x","command":["/entrypointer/bin/entrypoint"],"args":["--","serve"],"volumeMounts":[{"name":"entrypointer-bin","mountPath":"/entrypointer/bin","readOnly":true}]}`,
		"plain":   `{"name":"main","image":"x"}`,
	}
	mux.HandleFunc("GET /api/v1/namespaces/tenant/pods/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		if containers[name] == "" {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprintf(w, `{"metadata":{"name":%q,"annotations":{"entrypointer.dev/status":"Injected by init-container"}},"spec":{"containers":[%s]},"status":{"phase":"Succeeded"}}`, name, containers[name])
	})
	// The status is what admission decides anew.
	mux.HandleFunc("POST /api/v1/namespaces/tenant/pods", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"metadata":{"annotations":{"entrypointer.dev/status":"Injected by init-container"}},"spec":{"containers":[%s]}}`, containers["wrapped"])
	})
	return mux
}

func TestSeveralObjectsAreAnsweredInTheirOrder(t *testing.T) {
	t.Parallel()
	config := kubeconfig(t, twoPods())
	for _, test := range []struct {
		args   []string
		code   int
		titles []string // of the answers
	}{
		{[]string{"wrapped", "wrapped"}, 0, []string{"pod/wrapped", "pod/wrapped"}},
		{[]string{"wrapped", "plain"}, exitFinding, []string{"pod/wrapped", "pod/plain"}},
		{[]string{"plain", "wrapped"}, exitFinding, []string{"pod/plain", "pod/wrapped"}},
		{[]string{"none", "plain"}, exitFailure, []string{"pod/none: reading", "pod/plain"}},
		{[]string{"plain", "none"}, exitFailure, []string{"pod/plain", "pod/none: reading"}},
		{[]string{"none"}, exitFailure, []string{"pod/none: reading"}},
	} {
		out, _, err := runsCommand(whyCommand(), "", append([]string{"--kubeconfig", config, "-o", "json"}, test.args...)...)
		require.Equal(t, test.code, exitCode(err), "%v: %v", test.args, err)
		require.Equal(t, test.titles, targetsOf(t, "why", out), test.args)

		out, _, err = runsCommand(statusCommand(), "", append([]string{"--kubeconfig", config, "-o", "json"}, test.args...)...)
		require.Equal(t, test.code == exitFailure, err != nil, "%v: %v", test.args, err)
		require.Equal(t, test.titles, targetsOf(t, "status", out), test.args)
	}
	out, _, err := runsCommand(whyCommand(), "", "--kubeconfig", config, "none", "plain")
	require.ErrorContains(t, err, "reading pod/none in namespace \"tenant\"")
	require.True(t, strings.HasPrefix(out, "pod/plain in namespace tenant\n"), out)
	out, _, err = runsCommand(statusCommand(), "", "--kubeconfig", config, "none", "wrapped", "plain", "-w")
	require.ErrorContains(t, err, "reading pod/none in namespace \"tenant\"")
	require.Equal(t, "pod/wrapped in namespace tenant: Succeeded\n  main  isn't created yet\n\npod/plain in namespace tenant: Succeeded\n  main  isn't created yet\n", out)
}

func TestAWideAnswerIsText(t *testing.T) {
	t.Parallel()
	config := kubeconfig(t, twoPods())
	out, _, err := runsCommand(statusCommand(), "", "--kubeconfig", config, "wrapped", "-w", "-o", "wide")
	require.NoError(t, err)
	require.Equal(t, "pod/wrapped in namespace tenant: Succeeded\n  CONTAINER  READY  RESTARTS  PREVIOUS EXIT  STATUS\n  main       no     0         -              isn't created yet\n", out)
	out, _, err = runsCommand(whyCommand(), "", "--kubeconfig", config, "wrapped", "-o", "wide")
	require.NoError(t, err)
	require.Contains(t, out, "  container main: wrapped\n    image: x\n")
}

// targetsOf returns the objects that the document of a command has answers about, with the
// first word of an error.
func targetsOf(t *testing.T, command, document string) (all []string) {
	t.Helper()
	if document == "" {
		return nil
	}
	require.NoError(t, jsonschema.Check(cliSchema, command, []byte(document)))
	var read struct {
		Answers []struct{ Target, Namespace, Error string }
	}
	require.NoError(t, json.Unmarshal([]byte(document), &read))
	for _, a := range read.Answers {
		require.Equal(t, "tenant", a.Namespace)
		if a.Error != "" {
			first, _, _ := strings.Cut(a.Error, " ")
			a.Target += ": " + first
		}
		all = append(all, a.Target)
	}
	return all
}
