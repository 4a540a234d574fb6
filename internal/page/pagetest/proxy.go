// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pagetest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Proxy is an authenticating proxy. It knows its user by the cookie "session", as oauth2-proxy does,
// and hands its value on as a bearer token. What the user sends as a token is dropped.
type Proxy struct {
	t   *testing.T
	url string
}

// signIn is the path that begins the session of a user.
const signIn = "/sign-in"

// BehindAProxy serves a page behind an authenticating proxy until the test ends.
func BehindAProxy(t *testing.T, page *url.URL, transport http.RoundTripper) *Proxy {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+signIn, func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		http.SetCookie(w, &http.Cookie{Name: "session", Value: query.Get("session"), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode}) //nolint:gosec // G124: a test has no TLS
		http.Redirect(w, r, query.Get("to"), http.StatusSeeOther)                                                                                //nolint:gosec // G710: of a test
	})
	mux.Handle("/", &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(page)
		r.Out.Header.Del("Authorization")
		if session, err := r.In.Cookie("session"); err == nil {
			r.Out.Header.Set("Authorization", "Bearer "+session.Value)
		}
	}})
	proxy := httptest.NewServer(mux)
	t.Cleanup(proxy.Close)
	return &Proxy{t, proxy.URL}
}

// SignIn returns the address by which a browser begins a session, and goes to a path of the page.
func (p *Proxy) SignIn(session, path string) string {
	return p.url + signIn + "?" + url.Values{"session": {session}, "to": {path}}.Encode()
}

// Get reads the page.
func (p *Proxy) Get(path, session string, others ...*http.Cookie) (status int, body string) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path, nil)
	require.NoError(p.t, err)
	for _, cookie := range append(others, &http.Cookie{Name: "session", Value: session}) { //nolint:gosec // G124: in a request, a cookie has no attributes
		request.AddCookie(cookie)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(p.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	return response.StatusCode, string(text)
}
