// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/registrytest"
)

// internet answers for all hosts there are: a registry on each, with one image,
// which may lead elsewhere.
type internet struct {
	token, manifests, blobs string // a prefix of URLs to go to; empty for none
	asked                   []string
}

var (
	internetConfig   = []byte(`{"os":"linux","architecture":"amd64","config":{"Entrypoint":["/entry"]}}`)
	internetManifest = fmt.Appendf(nil, `{"schemaVersion":2,"config":{"mediaType":%q,"digest":%q,"size":%d}}`,
		types.OCIConfigJSON, digestOf(internetConfig), len(internetConfig))
)

func (i *internet) answer(w http.ResponseWriter, r *http.Request) {
	i.asked = append(i.asked, r.URL.Host)
	goTo := func(prefix string) bool {
		if prefix == "" || r.Response != nil {
			return false
		}
		http.Redirect(w, r, prefix+r.URL.Path, http.StatusTemporaryRedirect)
		return true
	}
	switch {
	case r.URL.Path == "/v2/" && i.token != "":
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+i.token+`/token",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/v2/":
	case strings.HasSuffix(r.URL.Path, "/token"):
		_, _ = w.Write([]byte(`{"token":"t"}`))
	case strings.Contains(r.URL.Path, "/blobs/"):
		if !goTo(i.blobs) {
			_, _ = w.Write(internetConfig)
		}
	case !goTo(i.manifests):
		w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
		w.Header().Set("Docker-Content-Digest", digestOf(internetManifest))
		if r.Method == http.MethodGet {
			_, _ = w.Write(internetManifest)
		}
	}
}

func TestWhereARegistryMayLead(t *testing.T) {
	anything := lookup.AllowList{}
	hub := lookup.AllowList{Everywhere: patterns(t, "docker.io", "quay.io/team")}
	ports := lookup.AllowList{Everywhere: patterns(t, "docker.io", "quay.io", "five.example:5000", "http.example:80", "tls.example:443", "[fd12::1]:5000", "*.wild.example")}
	for name, test := range map[string]struct {
		image   string
		allowed lookup.AllowList
		net     internet
		refused string
	}{
		"to its token server":                           {"busybox", hub, internet{token: "https://auth.docker.io"}, ""},
		"to another's token server":                     {"busybox", hub, internet{token: "https://evil.example"}, `token server "evil.example"`},
		"to another's token server, if all are allowed": {"busybox", anything, internet{token: "https://evil.example"}, ""},
		"to one that looks like its own":                {"busybox", hub, internet{token: "https://docker.io.evil.example"}, `"docker.io.evil.example"`},
		"to one of an allowed registry":                 {"busybox", hub, internet{token: "https://quay.io"}, ""},
		"to a token server without TLS":                 {"busybox", anything, internet{token: "http://auth.docker.io"}, "realm"},
		"to its storage":                                {"busybox", hub, internet{blobs: "https://storage.example"}, ""},
		"to its storage without TLS":                    {"busybox", hub, internet{blobs: "http://storage.example"}, `redirect to "storage.example" without TLS`},
		"to a manifest elsewhere":                       {"busybox", hub, internet{manifests: "https://evil.example"}, `redirect to "evil.example"`},
		"to a manifest of an allowed registry":          {"docker.io/team/app", hub, internet{manifests: "https://quay.io"}, ""},
		"to a manifest of a part that is not allowed":   {"docker.io/others/app", hub, internet{manifests: "https://quay.io"}, `redirect to "quay.io"`},
		"to a manifest elsewhere, if all are allowed":   {"busybox", anything, internet{manifests: "https://other.example"}, ""},
		"to the named port, without TLS":                {"busybox", ports, internet{blobs: "http://five.example:5000"}, ""},
		"to another port, without TLS":                  {"busybox", ports, internet{blobs: "http://five.example:5001"}, `redirect to "five.example:5001" without TLS`},
		"to the default port, without TLS":              {"busybox", ports, internet{blobs: "http://five.example"}, `redirect to "five.example" without TLS`},
		"to a registry without a port, without TLS":     {"busybox", ports, internet{blobs: "http://quay.io"}, ""},
		"to its port 80 by number":                      {"busybox", ports, internet{blobs: "http://QUAY.io:80"}, ""},
		"to its port for TLS, without TLS":              {"busybox", ports, internet{blobs: "http://quay.io:443"}, `redirect to "quay.io:443" without TLS`},
		"to the database beside it":                     {"busybox", ports, internet{blobs: "http://quay.io:6379"}, `redirect to "quay.io:6379" without TLS`},
		"to the manifest beside it":                     {"busybox", ports, internet{manifests: "http://quay.io:6379"}, `redirect to "quay.io:6379" without TLS`},
		"to port 80 of one that is named with it":       {"busybox", ports, internet{blobs: "http://http.example"}, ""},
		"to port 80 of one that is named with 443":      {"busybox", ports, internet{blobs: "http://tls.example"}, `redirect to "tls.example" without TLS`},
		"to a named port of an address":                 {"busybox", ports, internet{blobs: "http://[fd12::1]:5000"}, ""},
		"to another port of an address":                 {"busybox", ports, internet{blobs: "http://[fd12::1]:9200"}, `redirect to "[fd12::1]:9200" without TLS`},
		"to one below a domain, without TLS":            {"busybox", ports, internet{blobs: "http://a.wild.example"}, `redirect to "a.wild.example" without TLS`},
		"to a manifest at port 443 by number":           {"busybox", ports, internet{manifests: "https://quay.io:443"}, ""},
		"to a manifest at a port that is not named":     {"busybox", ports, internet{manifests: "https://tls.example"}, ""},
		"to a manifest at another port":                 {"busybox", ports, internet{manifests: "https://quay.io:8443"}, `redirect to "quay.io:8443"`},
		"to a token server at port 443 by number":       {"busybox", ports, internet{token: "https://quay.io:443"}, ""},
		"to a token server at another port":             {"busybox", ports, internet{token: "https://quay.io:8443"}, `token server "quay.io:8443"`},
		"to a mirror's port, without TLS":               {"busybox", anything, internet{blobs: "http://mirror.example:5000"}, ""},
		"to another port of the mirror, without TLS":    {"busybox", anything, internet{blobs: "http://mirror.example:6379"}, `redirect to "mirror.example:6379" without TLS`},
		"to an address that is no neighbour":            {"93.184.216.34/app", lookup.AllowList{Everywhere: patterns(t, "93.184.216.34")}, internet{token: "https://8.8.216.34"}, `token server "8.8.216.34"`},
	} {
		t.Run(name, func(t *testing.T) {
			registry := lookup.NewRegistry(anonymous, registrytest.Answering(test.net.answer), lookup.Options{
				Allowed: test.allowed, Mirrors: lookup.Mirrors{"other.example": {"mirror.example:5000/hub"}},
			})
			image, err := registry.Lookup(t.Context(), lookup.Query{Image: test.image, Namespace: "a"})
			if test.refused == "" {
				require.NoError(t, err)
				require.Equal(t, []string{"/entry"}, image.Configs[0].Entrypoint)
				return
			}
			require.ErrorContains(t, err, "set command:")
			if test.refused == "realm" { // the library's own rule
				require.NotContains(t, test.net.asked, "auth.docker.io")
				return
			}
			registrytest.RequireReason(t, err, lookup.NotAllowed, test.refused)
		})
	}
}

// A service that is no registry may be any service: a database, a mail server.
func TestNothingOfAnAnswerThatIsNoRegistrysIsShown(t *testing.T) {
	const secret = "hunter2"
	onPing := func(status int, header, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("WWW-Authenticate", header)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
			return true
		}
	}
	raw := func(text string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			connection, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = connection.Write([]byte(text))
				_ = connection.Close()
			}
			return true
		}
	}
	for name, intercept := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"a document that looks like errors": onPing(400, "", `{"errors":[{"code":"`+secret+`","message":"`+secret+`"}]}`),
		"details of errors":                 onPing(403, "", `{"errors":[{"code":"DENIED","message":"no","detail":{"password":"`+secret+`"}}]}`),
		"a page":                            onPing(500, "", secret),
		"a challenge without a realm":       onPing(401, `Bearer password="`+secret+`"`, ""),
		"a challenge of its own":            onPing(401, `Negotiate `+secret, ""),
		"a banner":                          raw("220 " + secret + " ESMTP\r\n"),
		"half an answer":                    raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + secret),
		"a header that is none":             raw("HTTP/1.1 200 " + secret + "\r\n" + secret + "\r\n\r\n"),
		"a manifest that is none":           onGet("manifests", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(secret)) }),
		"a type that is none": onGet("manifests", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
			_, _ = w.Write([]byte(`{"config":"` + secret + `"}`))
		}),
		"a token that is none": func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/token" {
				_, _ = w.Write([]byte(`{"password":"` + secret + `"}`))
				return true
			}
			return onPing(401, `Bearer realm="http://`+r.Host+`/token",service="x"`, "")(w, r)
		},
		"an error of the token server's": func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/token" {
				return onPing(400, "", `{"error":"`+secret+`"}`)(w, r)
			}
			return onPing(401, `Bearer realm="http://`+r.Host+`/token",service="x"`, "")(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := registrytest.New(t)
			registrytest.Push(t, server.Image("app"), registrytest.NewImage(t, registrytest.AMD64, []string{"/entry"}, nil))
			server.Intercept = intercept
			_, err := newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.Image("app")})
			require.ErrorContains(t, err, "set command:")
			require.NotContains(t, err.Error(), secret)
			require.NotContains(t, err.Error(), digestOf([]byte(secret)), "nor its hash")
		})
	}
}

func TestARegistrysOwnWordsAreShownAndNoMoreThanThose(t *testing.T) {
	server := registrytest.New(t)
	server.Intercept = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"errors":[{"code":"DENIED","message":"the quota of\u0007 team a is used up` + strings.Repeat("!", 1000) + `"}]}`))
		return true
	}
	_, err := newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.Image("app")})
	registrytest.RequireReason(t, err, lookup.Unauthorized, "403 Forbidden: DENIED: the quota of team a is used up!")
	require.Less(t, len(err.Error()), 1000)
}
