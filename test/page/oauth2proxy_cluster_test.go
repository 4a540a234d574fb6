// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package page_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/test/koimage"
	"github.com/entrypointer/entrypointer/test/loopback"
	"github.com/entrypointer/entrypointer/test/markdown"
)

const (
	// teamsPage is what docs/page.md says about the proxy, and proxyNamespace where it is there.
	teamsPage, proxyNamespace = "../../docs/page.md", "entrypointer-page"
	// ofTheTest labels that namespace, which an operator may have as well.
	ofTheTest = "entrypointer.dev/made-by=test-page"
	// loginManifest is the identity provider of the test.
	loginManifest = `
apiVersion: v1
kind: Pod
metadata:
  name: login
  namespace: ` + proxyNamespace + `
  labels: {app: login}
spec:
  containers:
    - name: login
      image: IMAGE
      args: [-keys=/provider/keys, -users=/users]
      ports: [{containerPort: 8080}]
      readinessProbe: {periodSeconds: 1, httpGet: {path: /keys, port: 8080}}
      volumeMounts: [{name: provider, mountPath: /provider}, {name: users, mountPath: /users}]
  volumes:
    - {name: provider, configMap: {name: provider}}
    - {name: users, secret: {secretName: users}}
---
apiVersion: v1
kind: Service
metadata:
  name: login
  namespace: ` + proxyNamespace + `
spec:
  selector: {app: login}
  ports: [{port: 80, targetPort: 8080}]
`
)

// TestTheTeamsPageOfTheClusterIsReadThroughOAuth2Proxy runs oauth2-proxy as docs/page.md says, logs in
// as a user who may read the namespace and as one who may not, and reads what the page shows them. The
// identity provider is one of the test. Its ID tokens are those of ServiceAccounts, so the API server
// accepts them without being configured.
func TestTheTeamsPageOfTheClusterIsReadThroughOAuth2Proxy(t *testing.T) {
	of := ofTheCluster(t)
	of.run(t, "wait", "job/report", "--for=condition=Complete", "--timeout=4m")
	servesTheTeam(t)
	page := runsOAuth2Proxy(t, of)
	run(t, "kubectl", "-n", of.namespace, "create", "rolebinding", "may-read", "--clusterrole=view", "--serviceaccount="+of.namespace+":may-read")
	list := "/namespaces/" + of.namespace + "/"
	inBrowsers(t, func(t *testing.T, b *browser) {
		b.logIn(t, page, list, "may-read")
		b.arrive(t, listed("job/report"))
		refreshed := func() bool {
			return strings.Contains(run(t, "kubectl", "-n", proxyNamespace, "logs", "login"), "refreshed the token of may-read")
		}
		for end := time.Now().Add(time.Minute); !refreshed(); {
			require.True(t, time.Now().Before(end), "the proxy asks for a new token")
			b.visit(t, page+list, listed("job/report"))
		}
		b.clickOn(t, "a[href$='/job/report/']")
		b.arrive(t, whole+` && `+seen+`.includes("last")`)
		b.requireComplaint(t, "status") // of the status 403 of the proxy's own page
	})
	inBrowsers(t, func(t *testing.T, b *browser) {
		b.logIn(t, page, list+"job/report/", "may-not")
		b.arrive(t, `document.querySelector("h1").textContent === "You may not read that"`)
		b.requireComplaint(t, "status")
	})
	for name, change := range map[string]func(*http.Request){
		"nobody": func(*http.Request) {},
		"a token of one's own": func(r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+run(t, "kubectl", "-n", of.namespace, "create", "token", "may-read"))
		},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page+list, http.NoBody)
		require.NoError(t, err)
		change(request)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusForbidden, response.StatusCode, "%s is to log in", name)
	}
}

// logIn logs a user in, and opens a path of the proxy. Tabs of Firefox share the sessions of others.
func (b *browser) logIn(t *testing.T, proxy, path, user string) {
	t.Helper()
	b.visit(t, proxy+"/oauth2/sign_out?"+url.Values{"rd": {path}}.Encode(), `document.querySelector("form button[type=submit]")`)
	b.clickOn(t, "form button[type=submit]")
	b.arrive(t, `document.title === "Log in"`)
	b.clickOn(t, "a#"+user)
}

// runsOAuth2Proxy runs the proxy with the commands and the manifest of docs/page.md until the end of the
// test, and returns its address. It has users may-read and may-not.
func runsOAuth2Proxy(t *testing.T, of *tenant) (address string) {
	t.Helper()
	blocks, err := markdown.BlocksFor(teamsPage, t.Name())
	require.NoError(t, err)
	remove := func() {
		_, err := command("", "kubectl", "delete", "namespace", "-l", ofTheTest)
		require.NoError(t, err)
	}
	remove() // what a test left that was killed
	require.Empty(t, run(t, "kubectl", "get", "namespace", proxyNamespace, "--ignore-not-found", "-o", "name"), "somebody has a proxy")
	directory := t.TempDir()
	require.NoError(t, markdown.Shell{Directory: directory, Environment: os.Environ()}.Run(t.Context(), blocks))
	t.Cleanup(remove)
	run(t, "kubectl", "label", "namespace", proxyNamespace, ofTheTest)

	var provider struct{ Issuer string }
	require.NoError(t, json.Unmarshal([]byte(run(t, "kubectl", "get", "--raw", "/.well-known/openid-configuration")), &provider))
	keys := filepath.Join(directory, "keys")
	require.NoError(t, os.WriteFile(keys, []byte(run(t, "kubectl", "get", "--raw", "/openid/v1/jwks")), 0o600))
	run(t, "kubectl", "-n", proxyNamespace, "create", "configmap", "provider", "--from-file="+keys)
	secret := []string{"-n", proxyNamespace, "create", "secret", "generic", "users"}
	for _, user := range []string{"may-read", "may-not"} {
		of.run(t, "create", "serviceaccount", user)
		secret = append(secret, "--from-literal="+user+"="+strings.TrimSpace(of.run(t, "create", "token", user, "--audience="+provider.Issuer)))
	}
	run(t, "kubectl", secret...)
	applies(t, strings.Replace(loginManifest, "IMAGE", koimage.Build(t, ".", "./login"), 1))
	run(t, "kubectl", "-n", proxyNamespace, "wait", "pod/login", "--for=condition=Ready", "--timeout=2m")
	login := forwarded(t, proxyNamespace, "pod/login", ":8080")

	address = loopback.FreeAddressFor(t)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	content, err := os.ReadFile(teamsPage)
	require.NoError(t, err)
	manifest := regexp.MustCompile("```yaml\n([^`]*?name: oauth2-proxy[^`]*)```").FindStringSubmatch(string(content))
	require.NotNil(t, manifest, "the manifest of the proxy in %s", teamsPage)
	inside := "http://login." + proxyNamespace + ".svc"
	applies(t, replaced(t, manifest[1],
		"oauth2-proxy/oauth2-proxy:VERSION", koimage.Build(t, "oauth2proxy", "github.com/oauth2-proxy/oauth2-proxy/v7"),
		"https://login.example.com", provider.Issuer,
		"--client-id=kubernetes", "--client-id="+provider.Issuer,
		"https://page.example.com/", "http://"+address+"/",
		"--cookie-refresh=5m", "--cookie-refresh=2s",
		"- --cookie-samesite=lax", strings.Join([]string{
			// What takes the place of TLS, and of the provider's own description.
			"- --cookie-samesite=lax", "- --cookie-secure=false", "- --skip-oidc-discovery", "- --oidc-email-claim=sub", "- --oidc-enabled-signing-alg=RS256,ES256",
			"- --login-url=http://" + login + "/authorize", "- --redeem-url=" + inside + "/token", "- --oidc-jwks-url=" + inside + "/keys",
		}, "\n            "),
	))
	run(t, "kubectl", "-n", proxyNamespace, "rollout", "status", "deployment/oauth2-proxy", "--timeout=2m")
	forwarded(t, proxyNamespace, "deployment/oauth2-proxy", port+":4180")
	return "http://" + address
}

// replaced replaces words of a text, each of which is there.
func replaced(t *testing.T, text string, oldnew ...string) string {
	t.Helper()
	for at := 0; at < len(oldnew); at += 2 {
		require.Contains(t, text, oldnew[at])
	}
	return strings.NewReplacer(oldnew...).Replace(text)
}

// applies has the API server create what a manifest describes.
func applies(t *testing.T, manifest string) {
	t.Helper()
	_, err := command(manifest, "kubectl", "apply", "-f", "-")
	require.NoError(t, err)
}
