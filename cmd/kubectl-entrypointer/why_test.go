// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/internal/why"
	"github.com/entrypointer/entrypointer/test/jsonschema"
)

// asksWhy runs the command with a file's content at stdin.
func asksWhy(stdin string, args ...string) (stdout string, err error) {
	command := whyCommand()
	var out bytes.Buffer
	command.SetIn(strings.NewReader(stdin))
	command.SetOut(&out)
	command.SetErr(&bytes.Buffer{})
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(args)
	err = command.Execute()
	return out.String(), err
}

// tenants is an API server with the namespaces tenant, which opted in, and other, which
// didn't, and which admits pods as they are.
func tenants() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}", func(w http.ResponseWriter, r *http.Request) {
		annotations := "{}"
		if r.PathValue("namespace") == "tenant" {
			annotations = `{"entrypointer.dev/inject":"true"}`
		}
		_, _ = io.WriteString(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"annotations":`+annotations+`,"labels":`+annotations+`}}`)
	})
	mux.HandleFunc("POST /api/v1/namespaces/{namespace}/pods", echo)
	return mux
}

const manifest = `apiVersion: v1
kind: ConfigMap
metadata: {name: ignored}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: main, image: x}]}}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: bare, namespace: other}
spec: {containers: [{name: main, image: x}]}
`

func TestAFileIsAskedAboutInTheNamespacesOfItsObjects(t *testing.T) {
	t.Parallel()
	config := kubeconfig(t, tenants())
	out, err := asksWhy(manifest, "--kubeconfig", config, "-f", "-", "-o", "json")
	require.Equal(t, exitFinding, exitCode(err))
	require.NoError(t, jsonschema.Check(cliSchema, "why", []byte(out)))
	var document struct{ Answers []why.Answer }
	require.NoError(t, json.Unmarshal([]byte(out), &document))
	require.Len(t, document.Answers, 2)
	require.Equal(t, []string{"cronjob/nightly", "tenant", "DoesNotAsk"}, []string{document.Answers[0].Target, document.Answers[0].Namespace, string(document.Answers[0].Now.Reason)})
	require.Equal(t, []string{"pod/bare", "other", "NamespaceNotOptedIn"}, []string{document.Answers[1].Target, document.Answers[1].Namespace, string(document.Answers[1].Now.Reason)})

	file := filepath.Join(t.TempDir(), "manifest.yaml")
	require.NoError(t, os.WriteFile(file, []byte(manifest), 0o600))
	asYAML, err := asksWhy("", "--kubeconfig", config, "-f", file, "-o", "yaml")
	require.Equal(t, exitFinding, exitCode(err))
	same, err := yaml.YAMLToJSON([]byte(asYAML))
	require.NoError(t, err)
	require.JSONEq(t, out, string(same))

	text, err := asksWhy("", "--kubeconfig", config, "-f", file)
	require.Equal(t, exitFinding, exitCode(err))
	require.Contains(t, text, "cronjob/nightly in namespace tenant\n")
	require.Contains(t, text, "\n\npod/bare in namespace other\n")
}

// The file has a Deployment beside objects of controllers, which asks in a namespace that
// opted in, or not.
func TestObjectsOfControllersDontHideTheOthersOfAFile(t *testing.T) {
	t.Parallel()
	config := kubeconfig(t, tenants())
	const controllers = `kind: TaskRun
apiVersion: tekton.dev/v1
metadata: {name: build, namespace: other}
---
kind: PipelineRun
metadata: {generateName: release-}
---
kind: Pipeline
metadata: {name: release}
---
kind: Service
apiVersion: serving.knative.dev/v1
metadata: {name: hello}
`
	const deployment = "---\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {containers: [{name: main, image: x, command: [serve]}]}}}\n"
	const asking = "---\nkind: Pod\nmetadata: {name: asks, annotations: {entrypointer.dev/inject: \"true\"}}\nspec: {containers: [{name: main, image: x, command: [serve]}]}\n"
	const told = `taskrun/build: only a controller can make its pods; create it, and ask: kubectl entrypointer why -n other taskrun/build
pipelinerun/release-: only a controller can make its pods; create it, and ask: kubectl entrypointer why pipelinerun/NAME
pipeline/release: only a controller can make its pods; create it, and ask: kubectl entrypointer why pipelinerun/NAME
ksvc/hello: only a controller can make its pods; create it, and ask: kubectl entrypointer why ksvc/hello
`
	for name, test := range map[string]struct {
		command *cobra.Command
		file    string
		args    []string
		code    int
		out     string
	}{
		"why, with a finding":    {whyCommand(), controllers + deployment, nil, exitFinding, "deployment/web in namespace tenant\n"},
		"why, of nothing else":   {whyCommand(), controllers, nil, exitFailure, ""},
		"inject, with a finding": {injectCommand(), controllers + deployment, []string{"-o", "patch"}, exitFinding, "[]"},
		"inject, offline":        {injectCommand(), controllers + asking, []string{"-o", "yaml", "--offline"}, exitFailure, "entrypointer.dev/status: Injected"},
		"graph":                  {graphCommand(), controllers + deployment, nil, exitFinding, "no container waits"},
		"graph, of nothing else": {graphCommand(), controllers, nil, exitFailure, ""},
	} {
		out, stderr, err := runsCommand(test.command, test.file, append([]string{"--kubeconfig", config, "-f", "-"}, test.args...)...)
		require.Equal(t, test.code, exitCode(err), "%s: %v", name, err)
		require.Contains(t, out, test.out, name)
		require.True(t, strings.HasPrefix(stderr, told), "%s: %s", name, stderr)
	}
}

func TestWrongQuestionsAreRefused(t *testing.T) {
	t.Parallel()
	config := kubeconfig(t, tenants())
	for says, test := range map[string]struct {
		stdin string
		args  []string
		code  int
	}{
		"name objects, as TYPE/NAME":                      {"", nil, exitUsage},
		"or a file by -f":                                 {"", []string{"p", "-f", "x"}, exitUsage},
		"use json, yaml or wide":                          {"", []string{"p", "-o", "name"}, exitUsage},
		"use TYPE/NAME with the type":                     {"", []string{"p", "secret/p"}, exitUsage},
		`is in namespace "other"`:                         {manifest, []string{"-f", "-", "-n", "tenant"}, exitUsage},
		"no such file":                                    {"", []string{"-f", "/none"}, exitFailure},
		"it is empty":                                     {"", []string{"-f", "-"}, exitFailure},
		" is a directory":                                 {"", []string{"-f", t.TempDir()}, exitFailure},
		`reading "deploy": it is a type: use deploy/NAME`: {"", []string{"deploy", "asks"}, exitUsage},
		"it has no object with pods":                      {"kind: ConfigMap\n", []string{"-f", "-"}, exitFailure},
		"it has no kind":                                  {"a: b\n", []string{"-f", "-"}, exitFailure},
		"reading document 2":                              {"kind: ConfigMap\n---\n{\n", []string{"-f", "-"}, exitFailure},
		`reading pod/p in namespace "tenant"`:             {"", []string{"p"}, exitFailure},
	} {
		_, err := asksWhy(test.stdin, append([]string{"--kubeconfig", config}, test.args...)...)
		require.ErrorContains(t, err, says)
		require.Equal(t, test.code, exitCode(err), says)
	}
}
