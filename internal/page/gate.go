// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"net"
	"net/http"
	"slices"
	"strings"
)

// tokenBytes is the length of a token, as many bytes as nobody guesses.
const tokenBytes = 32

// NewToken returns a token that can't be guessed, for a path.
func NewToken() string {
	token := make([]byte, tokenBytes)
	_, _ = rand.Read(token) // never fails
	return base64.RawURLEncoding.EncodeToString(token)
}

// Gate lets requests through to a page on the loopback interface whose path begins with a
// token, and whose Host is 127.0.0.1 and a port: a name that an attacker's DNS resolves to
// 127.0.0.1 isn't. Nor is localhost, which can be ::1, where another user of the machine may
// listen. All others look like requests for what doesn't exist.
func Gate(token, port string, next http.Handler) http.Handler {
	hosts := []string{net.JoinHostPort("127.0.0.1", port)}
	if port == "80" { // browsers leave it out
		hosts = append(hosts, "127.0.0.1")
	}
	prefix := "/" + token
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, _, isPath := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		knows := subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
		if !knows || !isPath || !slices.Contains(hosts, r.Host) {
			Protect(w.Header())
			http.NotFound(w, r)
			return
		}
		http.StripPrefix(prefix, next).ServeHTTP(w, r)
	})
}

// policy is the Content-Security-Policy. Forms are those that filter lists.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// openerPolicy is the header that keeps windows of other sites apart.
const openerPolicy = "Cross-Origin-Opener-Policy"

// Protect sets the headers of all responses. That of the page of a run may have another
// openerPolicy.
func Protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set(openerPolicy, "same-origin")
	h.Set("Cache-Control", "no-store")
}

// mostAtOnce bounds the requests that are answered at the same time. A browser sends six.
const mostAtOnce = 24

// bounded lets some requests through at the same time, and only those that read.
func bounded(next http.Handler) http.Handler {
	places := make(chan struct{}, mostAtOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Protect(w.Header())
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests at once", http.StatusServiceUnavailable)
		}
	})
}
