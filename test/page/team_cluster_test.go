// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package page_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/page/pagetest"
)

// TestTheTeamsPageOfTheClusterShowsToEachUserWhatTheyMayRead installs the overlay, and opens the page of
// the log service's pod behind a proxy that hands tokens on: as a user who may read the namespace, and
// as one who may not. It isn't parallel: the log service is away for a moment.
func TestTheTeamsPageOfTheClusterShowsToEachUserWhatTheyMayRead(t *testing.T) {
	of := ofTheCluster(t)
	of.run(t, "wait", "job/report", "--for=condition=Complete", "--timeout=4m")
	trace := strings.ReplaceAll(of.run(t, "get", "pipelinerun/release", "-o", "jsonpath={.metadata.uid}"), "-", "")
	proxy := servesTheTeam(t)
	users := map[string]string{}
	for _, user := range []string{"jane", "bob"} {
		of.run(t, "create", "serviceaccount", user)
		users[user] = strings.TrimSpace(of.run(t, "create", "token", user))
	}
	of.run(t, "create", "rolebinding", "jane", "--clusterrole=view", "--serviceaccount="+of.namespace+":jane")
	list := "/namespaces/" + of.namespace + "/"
	inBrowsers(t, func(t *testing.T, b *browser) {
		b.visit(t, proxy.SignIn(users["jane"], list), listed("job/report"))
		require.Equal(t, list, value[string](t, b, `location.pathname`))
		require.Empty(t, violations(t, b, axe(t)))
		b.clickOn(t, "a[href$='/job/report/']")
		b.arrive(t, whole+` && `+seen+`.includes("last")`)
		require.Contains(t, value[[]string](t, b, spans), "main|ran||exit code 0")
		b.search(t, "first")
		require.Empty(t, violations(t, b, axe(t)))
		b.visit(t, proxy.SignIn(users["jane"], list+"pipelinerun/release/"), over)
		require.Equal(t, strings.ReplaceAll(operatorsTraces, "{traceID}", trace), value[string](t, b, `document.querySelector("#trace a").href`))
	})
	inBrowsers(t, func(t *testing.T, b *browser) {
		for _, path := range []string{list, list + "job/report/"} {
			b.visit(t, proxy.SignIn(users["bob"], path), `document.querySelector("h1").textContent === "You may not read that"`)
			require.Empty(t, value[[]string](t, b, names))
		}
		require.Empty(t, violations(t, b, axe(t)))
		b.requireComplaint(t, "status")
	})
	for name, asked := range map[string]struct {
		token  string
		status int
	}{"bob": {users["bob"], http.StatusForbidden}, "nobody": {"", http.StatusUnauthorized}, "with a token of no one's": {"a.b.c", http.StatusUnauthorized}} {
		status, body := proxy.Get(list+"job/report/logs/text", asked.token)
		require.Equal(t, asked.status, status, "%s: %s", name, body)
		require.NotContains(t, body, "last", name)
	}

	page, err := of.serve("--trace-url=")
	require.NoError(t, err)
	b := newChromium(t)
	b.visit(t, page+"pipelinerun/release/", over)
	require.Equal(t, strings.ReplaceAll(operatorsTraces, "{traceID}", trace), value[string](t, b, `document.querySelector("#trace a").href`), "the command asks the log service where traces are")
}

// operatorsTraces is where the operator says that traces are.
const operatorsTraces = "https://traces.example/{traceID}"

// servesTheTeam installs the log service with the page, as docs/page.md says, until the end of the test,
// and returns a proxy in front of it.
func servesTheTeam(t *testing.T) *pagetest.Proxy {
	t.Helper()
	shell := func(script string) string {
		return run(t, "bash", "-ec", "cd ../.. && "+script)
	}
	const rolledOut = "kubectl -n " + endpoint.Namespace + " rollout status deployment/logs --timeout=2m"
	t.Cleanup(func() {
		shell("kubectl -n " + endpoint.Namespace + " delete service/page networkpolicy/page --ignore-not-found && ko apply -f config/logs && " + rolledOut)
	})
	const withTraces = `[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"-trace-url=` + operatorsTraces + `"}]`
	shell("kubectl kustomize examples/logs/page | ko apply -f - && kubectl -n " + endpoint.Namespace + " patch deployment logs --type json --patch '" + withTraces + "' && " + rolledOut)
	bundle, err := base64.StdEncoding.DecodeString(shell("kubectl get apiservice v1alpha1.logs.entrypointer.dev -o jsonpath='{.spec.caBundle}'"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(bundle))
	address := forwarded(t, endpoint.Namespace, "service/page", ":443")
	return pagetest.BehindAProxy(t, &url.URL{Scheme: "https", Host: "page." + endpoint.Namespace + ".svc"}, &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	})
}

// forwarded returns an address of this machine that leads to a port in a namespace until the end of the
// test. The ports are LOCAL:REMOTE, or :REMOTE for any local one.
func forwarded(t *testing.T, namespace, what, ports string) string {
	t.Helper()
	forward := exec.CommandContext(t.Context(), "kubectl", "-n", namespace, "port-forward", "--address", "127.0.0.1", what, ports)
	out, err := forward.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, forward.Start())
	t.Cleanup(func() { _ = forward.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	address, _, found := strings.Cut(strings.TrimPrefix(line, "Forwarding from "), " -> ")
	require.True(t, found, line)
	return address
}
