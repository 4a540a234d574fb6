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

// BehindAProxy serves a page behind an authenticating proxy until the test ends, and returns what
// reads the page. The proxy knows its user by the cookie "session", as oauth2-proxy does, and hands
// its value on as a bearer token. What the user sends as a token is dropped.
func BehindAProxy(t *testing.T, page *url.URL, transport http.RoundTripper) (get func(path, session string, others ...*http.Cookie) (status int, body string)) {
	t.Helper()
	proxy := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(page)
		r.Out.Header.Del("Authorization")
		if session, err := r.In.Cookie("session"); err == nil {
			r.Out.Header.Set("Authorization", "Bearer "+session.Value)
		}
	}})
	t.Cleanup(proxy.Close)
	return func(path, session string, others ...*http.Cookie) (status int, body string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, proxy.URL+path, nil)
		require.NoError(t, err)
		for _, cookie := range append(others, &http.Cookie{Name: "session", Value: session}) { //nolint:gosec // G124: in a request, a cookie has no attributes
			request.AddCookie(cookie)
		}
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(text)
	}
}
