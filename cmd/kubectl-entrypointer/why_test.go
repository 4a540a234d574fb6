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
		"it has no object with pods":                      {"kind: ConfigMap\n", []string{"-f", "-"}, exitFailure},
		"only a controller can make the pod of a TaskRun": {"kind: TaskRun\nmetadata: {name: x}\n", []string{"-f", "-"}, exitFailure},
		"only Knative's controller":                       {"apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: x}\nspec: {template: {}}\n", []string{"-f", "-"}, exitFailure},
		"it has no kind":                                  {"a: b\n", []string{"-f", "-"}, exitFailure},
		"reading document 2":                              {"kind: ConfigMap\n---\n{\n", []string{"-f", "-"}, exitFailure},
		`reading pod/p in namespace "tenant"`:             {"", []string{"p"}, exitFailure},
	} {
		_, err := asksWhy(test.stdin, append([]string{"--kubeconfig", config}, test.args...)...)
		require.ErrorContains(t, err, says)
		require.Equal(t, test.code, exitCode(err), says)
	}
}
