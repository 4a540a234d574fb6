// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package page_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tracesAt is where the page finds traces.
const tracesAt = "https://jaeger.example/trace/{traceID}"

// A tenant is a namespace of the cluster with runs, and the page that the command serves of it. All
// tests share one.
type tenant struct {
	namespace string
	plugin    string
	page      string // the address of the list
	stopped   sync.Once
}

// theTenant begins when a test first needs it.
var theTenant = sync.OnceValues(newTenant)

// ofTheCluster returns the tenant.
func ofTheCluster(t *testing.T) *tenant {
	t.Helper()
	of, err := theTenant()
	require.NoError(t, err)
	return of
}

// newTenant creates the namespace with its runs, and serves the page.
func newTenant() (*tenant, error) {
	directory, err := os.MkdirTemp("", "plugin-")
	if err != nil {
		return nil, err
	}
	ends = append(ends, func() { _ = os.RemoveAll(directory) })
	// Of a former namespace of the same name, an administrator would see the logs.
	of := &tenant{namespace: fmt.Sprintf("page-%x", time.Now().Unix()), plugin: filepath.Join(directory, "kubectl-entrypointer")}
	if _, err := command("", "go", "build", "-C", "../..", "-o", of.plugin, "./cmd/kubectl-entrypointer"); err != nil {
		return nil, err
	}
	manifest := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q,"annotations":{"entrypointer.dev/inject":"true","entrypointer.dev/logs":"stream"}}}`, of.namespace)
	if _, err := command(manifest, "kubectl", "create", "-f", "-"); err != nil {
		return nil, err
	}
	ends = append(ends, func() { _, _ = of.kubectl("", "delete", "namespace", of.namespace, "--wait=false") })
	if _, err := of.kubectl("", "wait", "--for=create", "serviceaccount/default", "--timeout=1m"); err != nil {
		return nil, err
	}
	for _, file := range []string{"runs.yaml", "logs.yaml"} {
		if err := of.create(file); err != nil {
			return nil, err
		}
	}
	of.page, err = of.serve()
	return of, err
}

// serve runs the command that serves a page, and returns the address of the list.
func (of *tenant) serve(args ...string) (string, error) {
	ui := exec.Command(of.plugin, append([]string{"ui", "-n", of.namespace, "--trace-url", tracesAt}, args...)...)
	printed, err := ui.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := ui.Start(); err != nil {
		return "", err
	}
	ends = append(ends, func() {
		if err := errors.Join(ui.Process.Signal(syscall.SIGINT), ui.Wait()); err != nil {
			fmt.Fprintf(os.Stderr, "%s doesn't end as it should when it is interrupted: %v\n", ui, err)
			os.Exit(1)
		}
	})
	address, err := bufio.NewReader(printed).ReadString('\n')
	return strings.TrimSpace(address), err
}

// command runs a command, and returns what it prints to stdout.
func command(stdin, name string, args ...string) (string, error) {
	var stdout, stderr strings.Builder
	run := exec.Command(name, args...)
	run.Stdin, run.Stdout, run.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := run.Run(); err != nil {
		return stdout.String(), fmt.Errorf("running %q: %w: %s", run.Args, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// run runs a command, and returns what it prints to stdout.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := command("", name, args...)
	require.NoError(t, err)
	return out
}

// kubectl runs a command of kubectl in the namespace.
func (of *tenant) kubectl(stdin string, args ...string) (string, error) {
	return command(stdin, "kubectl", append([]string{"-n", of.namespace}, args...)...)
}

// run runs a command of kubectl in the namespace.
func (of *tenant) run(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, "kubectl", append([]string{"-n", of.namespace}, args...)...)
}

// asks runs a command of the plugin in the namespace.
func (of *tenant) asks(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, of.plugin, append(args, "-n", of.namespace)...)
}

// stop deletes the pod stops while it runs.
func (of *tenant) stop(t *testing.T) {
	t.Helper()
	of.stopped.Do(func() {
		of.run(t, "wait", "pod/stops", "--for=condition=Ready", "--timeout=4m")
		of.run(t, "delete", "pod/stops", "--wait")
	})
}

// create creates the objects of a file in testdata, of which some texts are replaced. Knative looks
// images up itself, and doesn't know the mirror of Docker Hub that the nodes have.
func (of *tenant) create(file string, replacements ...string) error {
	content, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		return err
	}
	if registry := os.Getenv("E2E_IMAGE_REGISTRY"); registry != "" {
		replacements = append(replacements, "image: busybox:", "image: "+registry+"/library/busybox:")
	}
	_, err = of.kubectl(strings.NewReplacer(replacements...).Replace(string(content)), "create", "-f", "-")
	return err
}

// TestTheCommandShowsATaskRunOfTheCluster creates a TaskRun while the list is open, and watches it
// come, run and end without a reload.
func TestTheCommandShowsATaskRunOfTheCluster(t *testing.T) {
	of := ofTheCluster(t)
	inBrowsers(t, func(t *testing.T, b *browser) {
		name := "steps" + b.name
		b.visit(t, of.page, `document.querySelector("h1")`)
		require.NoError(t, of.create("taskrun.yaml", "name: steps", "name: "+name))
		b.await(t, `document.querySelector("a[href$='/taskrun/`+name+`/']") !== null`)
		b.visit(t, of.page+"taskrun/"+name+"/", `document.querySelector("h1")`)
		b.run(t, `window.isTheSame = true`)
		b.await(t, `document.querySelector("#state .succeeded") !== null && document.getElementById("live").dataset.seconds === "0"`)
		require.True(t, value[bool](t, b, `window.isTheSame === true`), "the page was loaded again")
		require.Positive(t, value[int](t, b, `document.querySelectorAll("#charts a .bar.running").length`), "steps ran")
		require.Positive(t, value[int](t, b, `document.querySelectorAll("#charts a .bar.waiting").length`), "steps waited for each other")
		b.await(t, `[...document.querySelectorAll(".log .r .t")].some((line) => line.textContent === "built")`)
		require.Empty(t, violations(t, b, axe(t)))
		if b.name == "" {
			b.takePicture(t, "page", true)
		}
	})
}

// TestTheCommandShowsTheClusterToNobodyElse asks as other programs of this machine do that know the
// port, and as pages of other sites.
func TestTheCommandShowsTheClusterToNobodyElse(t *testing.T) {
	of := ofTheCluster(t)
	address, err := url.Parse(of.page)
	require.NoError(t, err)
	client := &http.Client{Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for name, test := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"the user":               {func(*http.Request) {}, http.StatusOK},
		"without the token":      {func(r *http.Request) { r.URL.Path = "/" }, http.StatusNotFound},
		"with another token":     {func(r *http.Request) { r.URL.Path = strings.Replace(address.Path, address.Path[1:5], "0000", 1) }, http.StatusNotFound},
		"by a name that rebinds": {func(r *http.Request) { r.Host = "rebound.example:" + address.Port() }, http.StatusNotFound},
		"a page of another site": {func(r *http.Request) { r.Header.Set("Origin", "https://example.com") }, http.StatusOK},
		"before it writes":       {func(r *http.Request) { r.Method = http.MethodOptions; r.Header.Set("Origin", "https://example.com") }, http.StatusMethodNotAllowed},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, of.page, http.NoBody)
		require.NoError(t, err)
		test.change(request)
		response, err := client.Do(request)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, errors.Join(err, response.Body.Close()))
		require.Equal(t, test.status, response.StatusCode, name)
		require.Equal(t, test.status == http.StatusOK, strings.Contains(string(text), of.namespace), name)
		require.Empty(t, response.Header.Values("Access-Control-Allow-Origin"), name)
		require.Equal(t, "same-origin", response.Header.Get("Cross-Origin-Resource-Policy"), name)
		require.Contains(t, response.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self';", name)
	}
}

// TestTheCommandShowsTheClusterByTheRightsOfItsUser serves the page as a user without rights, and as
// one who may view the namespace.
func TestTheCommandShowsTheClusterByTheRightsOfItsUser(t *testing.T) {
	of := ofTheCluster(t)
	of.run(t, "wait", "job/report", "--for=condition=Complete", "--timeout=4m")
	of.run(t, "create", "rolebinding", "viewer", "--clusterrole=view", "--serviceaccount="+of.namespace+":viewer")
	as := func(user string) string {
		address, err := of.serve("--as=system:serviceaccount:" + of.namespace + ":" + user)
		require.NoError(t, err)
		return address
	}
	stranger := as("stranger")
	get := func(path string) (status int, text string) {
		response, err := http.Get(stranger + path)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, errors.Join(err, response.Body.Close()))
		return response.StatusCode, string(body)
	}
	for _, path := range []string{"", "job/report/", "job/report/timeline.json"} {
		status, text := get(path)
		require.Equal(t, http.StatusForbidden, status, path)
		require.Contains(t, text, "You may not read that", path)
	}
	status, log := get("job/report/logs/text")
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, log, "forbidden")
	require.NotContains(t, log, "last")

	b := newChromium(t)
	b.visit(t, as("viewer"), listed("job/report"))
	b.clickOn(t, "a[href$='/job/report/']")
	b.arrive(t, whole+` && `+seen+`.includes("last")`)
	require.Contains(t, value[[]string](t, b, spans), "main|ran||exit code 0")
}
