// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"golang.org/x/net/publicsuffix"
)

// The limits of what is read of a response, in bytes.
const (
	// MaxManifestBytes is for a manifest or index; registries themselves refuse
	// larger ones.
	MaxManifestBytes = 4 << 20
	// MaxConfigBytes is for an image's config. Real ones are tens of kilobytes.
	MaxConfigBytes = 1 << 20
	// maxOtherBytes is for tokens and errors, maxHeaderBytes for the header of any
	// response.
	maxOtherBytes  = 64 << 10
	maxHeaderBytes = 64 << 10
)

// A gate is passed by every request of a lookup, and by every response, also for
// redirects and token servers. The creator of a pod chooses the registry, so its answers
// aren't trusted.
type gate struct {
	next    http.RoundTripper
	allowed AllowList
	trusted authorities
}

// roundTripperFor returns the transport for a lookup in a repository.
func (g *gate) roundTripperFor(namespace string, of name.Repository) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if err := g.check(namespace, of, req); err != nil {
			return nil, err
		}
		resp, err := g.next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusTooManyRequests {
			return nil, newTooManyRequestsError(resp)
		}
		limit := int64(maxOtherBytes)
		if resp.StatusCode == http.StatusOK {
			limit = max(limit, limitOf(kindOf(originalRequest(req).URL)))
		}
		resp.Body = &limitedBody{ReadCloser: resp.Body, limit: limit, left: limit + 1}
		return resp, nil
	})
}

// check returns an error for a request to another authority than the registry's, unless
// that is allowed.
//
// Requests without TLS aren't, except to the hosts and ports that the operator names:
// inside of a cluster, a service with plain HTTP is more often a database than a token
// server. If the operator has a list of registries,
// manifests come only from these. A token server may be missing from the list if it is a
// neighbour of its registry, as auth.docker.io is of index.docker.io. The storage to
// which a registry redirects for a blob may be missing, too: its content has to have the
// digest that the registry named.
func (g *gate) check(namespace string, of name.Repository, req *http.Request) error {
	to, home := req.URL, authorities{of.RegistryStr()}
	if home.include(to) && (to.Scheme == "https" || of.Scheme() == "http") {
		return nil
	}
	what := "token server"
	if req.Response != nil {
		what = "redirect to"
	}
	what = fmt.Sprintf("%s %q", what, shorten(to.Host))
	begun := originalRequest(req)
	switch kind := kindOf(begun.URL); {
	case to.Scheme != "https" && !g.trusted.include(to):
		return &notAllowedError{what: what + " without TLS"}
	case len(g.allowed.Everywhere)+len(g.allowed.Namespaces) == 0, kind == blobs && home.include(begun.URL):
		return nil
	case kind != blobs && g.lists(namespace, to, kind):
		return nil
	case kind == other && sameSite(to.Hostname(), (&url.URL{Host: of.RegistryStr()}).Hostname()):
		return nil
	default:
		return &notAllowedError{what: what}
	}
}

// lists reports whether the operator's list has the registry of a URL, in either spelling
// if its port is the default.
func (g *gate) lists(namespace string, to *url.URL, kind string) bool {
	repository, _ := splitPath(to)
	return slices.ContainsFunc(spellings(to), func(host string) bool {
		if kind == other {
			return g.allowed.allowsHost(namespace, host)
		}
		registry, err := name.NewRegistry(host)
		return err == nil && g.allowed.allows(namespace, registry.Repo(repository))
	})
}

// originalRequest returns the request that led to this request by redirects.
func originalRequest(req *http.Request) *http.Request {
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
	}
	return req
}

// The kinds of requests.
const (
	manifests = "manifests"
	blobs     = "blobs"
	other     = "" // a ping, or a token
)

// kindOf returns the kind of a request from its URL: /v2/NAME/KIND/IDENTIFIER.
func kindOf(u *url.URL) string {
	_, kind := splitPath(u)
	return kind
}

func splitPath(u *url.URL) (repository, kind string) {
	path, ours := strings.CutPrefix(u.Path, "/v2/")
	parts := strings.Split(path, "/")
	if n := len(parts); ours && n > 2 && (parts[n-2] == manifests || parts[n-2] == blobs) {
		return strings.Join(parts[:n-2], "/"), parts[n-2]
	}
	return "", other
}

func limitOf(kind string) int64 {
	switch kind {
	case manifests:
		return MaxManifestBytes
	case blobs:
		return MaxConfigBytes
	default:
		return maxOtherBytes
	}
}

// sameSite reports whether two hosts have the same registrable domain.
func sameSite(a, b string) bool {
	of := registrableDomain(a)
	return of != "" && of == registrableDomain(b)
}

// registrableDomain returns "" for an address, and for a name without a domain.
func registrableDomain(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return ""
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(strings.ToLower(host))
	if err != nil {
		return ""
	}
	return domain
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// limitedBody returns an error after a limit of bytes.
type limitedBody struct {
	io.ReadCloser

	limit, left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, &tooLongError{limit: b.limit}
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

type tooLongError struct{ limit int64 }

func (e *tooLongError) Error() string {
	return fmt.Sprintf("the registry's answer is longer than %d bytes", e.limit)
}
