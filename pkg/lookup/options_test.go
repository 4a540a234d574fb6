// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/entrypointer/entrypointer/pkg/lookup"
)

func patterns(t *testing.T, texts ...string) []lookup.Pattern {
	t.Helper()
	var parsed []lookup.Pattern
	for _, text := range texts {
		pattern, err := lookup.ParsePattern(text)
		require.NoError(t, err)
		parsed = append(parsed, pattern)
	}
	return parsed
}

// nobody fails the test when it is asked.
func nobody(t *testing.T) lookups {
	return func(_ context.Context, query lookup.Query) (*lookup.Image, error) {
		t.Errorf("somebody was asked for %q", query.Image)
		return nil, context.Canceled
	}
}

func TestOnlyRegistriesThatAreAllowedAreAsked(t *testing.T) {
	list := lookup.AllowList{
		Everywhere: patterns(t, "docker.io/library", "*.trusted.example", "registry.example:5000"),
		Namespaces: map[string][]lookup.Pattern{"team-a": patterns(t, "ghcr.io/team-a")},
	}
	for image, allowed := range map[string]bool{
		"busybox":                              true,
		"docker.io/library/busybox:1":          true,
		"someone/app":                          false,
		"docker.io/library-of-evil/app":        false,
		"eu.trusted.example/app":               true,
		"a.b.trusted.example/x/y":              true,
		"trusted.example/app":                  false,
		"untrusted.example/app":                false,
		"trusted.example.evil.example/app":     false,
		"registry.example:5000/app":            true,
		"registry.example/app":                 false,
		"registry.example:5000.evil.com/app":   false,
		"ghcr.io/team-a/app":                   true,
		"ghcr.io/team-a-evil/app":              false,
		"ghcr.io/team-a/../team-b/app":         false,
		"localhost:5000/docker.io/library/app": false,
	} {
		t.Run(image, func(t *testing.T) {
			asked := false
			restricted := lookup.Restrict(lookups(func(context.Context, lookup.Query) (*lookup.Image, error) {
				asked = true
				return &lookup.Image{}, nil
			}), list)
			_, err := restricted.Lookup(t.Context(), lookup.Query{Image: image, Namespace: "team-a"})
			require.Equal(t, allowed, err == nil, err)
			require.Equal(t, allowed, asked, "the list acts before a packet leaves")
		})
	}
	_, err := lookup.Restrict(nobody(t), list).Lookup(t.Context(), lookup.Query{Image: "ghcr.io/team-a/app", Namespace: "team-b"})
	requireReason(t, err, lookup.NotAllowed, `"ghcr.io/team-a/app" is not allowed`, "have the operator")
}

func TestAPatternThatMatchesNothingIsRefused(t *testing.T) {
	for _, text := range []string{"", "*", "*.", "https://docker.io", "docker.io/", "docker.io/Library", "a b", "docker.io/a:tag", "*.*.example", "library"} {
		_, err := lookup.ParsePattern(text)
		require.ErrorContains(t, err, "such as", text)
	}
}

func TestWhatIsSaidOfAnImageNeedsNoRegistry(t *testing.T) {
	static := lookup.StaticImages{}
	require.NoError(t, static.Add("tools/build:1", lookup.Config{Entrypoint: []string{"/build"}}))
	known := lookup.Know(nobody(t), static)
	for _, image := range []string{"tools/build:1", "docker.io/tools/build:1", "index.docker.io/tools/build:1"} {
		got, err := known.Lookup(t.Context(), lookup.Query{Image: image})
		require.NoError(t, err)
		require.Equal(t, &lookup.Image{Pinned: image, Configs: []lookup.Config{{Entrypoint: []string{"/build"}}}, Source: lookup.Static}, got)
	}
	require.ErrorContains(t, static.Add("tools/empty", lookup.Config{}), "neither entrypoint nor cmd")
	require.ErrorContains(t, static.Add("UPPER", lookup.Config{Cmd: []string{"x"}}), `"UPPER" is no image`)
}

func TestMirrorsAreAskedFirstAndTheRegistryLast(t *testing.T) {
	server, mirror := newRegistry(t), newRegistry(t)
	push(t, server.image("library/app"), newImage(t, amd64, []string{"/upstream"}, nil))
	push(t, mirror.image("hub/library/app"), newImage(t, amd64, []string{"/mirrored"}, nil))
	push(t, server.image("library/new"), newImage(t, amd64, []string{"/upstream"}, nil))
	mirrors := lookup.Mirrors{}
	require.NoError(t, mirrors.Add(server.host, "mirror.invalid", mirror.host+"/hub"))
	asked := lookup.NewRegistry(anonymous, remote.DefaultTransport, mirrors)

	got, err := asked.Lookup(t.Context(), lookup.Query{Image: server.image("library/app:latest")})
	require.NoError(t, err)
	require.Equal(t, []string{"/mirrored"}, got.Configs[0].Entrypoint)
	require.True(t, strings.HasPrefix(got.Pinned, server.image("library/app:latest@sha256:")), "pinned under the author's name: %s", got.Pinned)

	got, err = asked.Lookup(t.Context(), lookup.Query{Image: server.image("library/new")})
	require.NoError(t, err)
	require.Equal(t, []string{"/upstream"}, got.Configs[0].Entrypoint, "the mirror doesn't have it")

	_, err = asked.Lookup(t.Context(), lookup.Query{Image: server.image("library/missing")})
	requireReason(t, err, lookup.NotFound, "a mirror:", "mirror.invalid")
}

func TestAMirrorThatHangsLeavesTimeForTheRegistry(t *testing.T) {
	t.Parallel()
	server, mirror := newRegistry(t), newRegistry(t)
	push(t, server.image("app"), newImage(t, amd64, []string{"/upstream"}, nil))
	mirror.intercept = func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }
	mirrors := lookup.Mirrors{}
	require.NoError(t, mirrors.Add(server.host, mirror.host))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := lookup.NewRegistry(anonymous, remote.DefaultTransport, mirrors).Lookup(ctx, lookup.Query{Image: server.image("app")})
	require.NoError(t, err)
}

func TestCredentialsForARegistryAreNotShownToItsMirror(t *testing.T) {
	server, mirror := newRegistry(t), newRegistry(t)
	push(t, server.image("app"), newImage(t, amd64, []string{"/upstream"}, nil))
	server.intercept = requireBasic("user", "right")
	mirror.intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if _, _, shown := r.BasicAuth(); shown {
			t.Error("the mirror was shown a password")
		}
		return requireBasic("mirror", "")(w, r)
	}
	mirrors := lookup.Mirrors{}
	require.NoError(t, mirrors.Add(server.host, mirror.host))
	client := fake.NewClientset(serviceAccount("default"), pullSecret(t, "a", login{server.host, "right"}))
	_, err := lookup.NewRegistry(lookup.PodCredentials(client), remote.DefaultTransport, mirrors).
		Lookup(t.Context(), lookup.Query{Image: server.image("app"), Namespace: "tenant", PullSecrets: []string{"a"}})
	require.NoError(t, err)
}

func TestAPrivateCAIsTrustedWhenConfigured(t *testing.T) {
	server := httptest.NewTLSServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "https://")
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))

	for _, test := range []struct {
		certificates string
		reason       lookup.Reason
		says         string
	}{
		{"", lookup.Untrusted, "add the registry's CA"},
		{ca, lookup.NotFound, "404"},
	} {
		asked, err := lookup.New(anonymous, lookup.Options{Certificates: test.certificates}, ample)
		require.NoError(t, err)
		_, err = asked.Lookup(t.Context(), lookup.Query{Image: host + "/app"})
		requireReason(t, err, test.reason, test.says)
	}
	_, err := lookup.New(anonymous, lookup.Options{Certificates: "not PEM"}, time.Second)
	require.ErrorContains(t, err, "-----BEGIN CERTIFICATE-----")
}

func TestPrivateAddressesAreNotConnectedToWhenForbidden(t *testing.T) {
	server := newRegistry(t)
	push(t, server.image("app"), newImage(t, amd64, []string{"/entry"}, nil))
	port := server.host[strings.LastIndex(server.host, ":"):]
	asked, err := lookup.New(anonymous, lookup.Options{ForbidPrivateAddresses: true}, ample)
	require.NoError(t, err)
	for _, image := range []string{
		server.image("app"), "localhost" + port + "/app", "[::1]" + port + "/app", "[::ffff:7f00:1]" + port + "/app",
		"10.0.0.1/app", "192.168.0.1:5000/app", "169.254.169.254/app", "100.100.100.200/app", "0.0.0.0" + port + "/app",
		"[fd00::1]:5000/app", "[fe80::1]:5000/app",
	} {
		_, err := asked.Lookup(t.Context(), lookup.Query{Image: image})
		requireReason(t, err, lookup.NotAllowed, "private address", "is not allowed")
	}
	require.Zero(t, server.manifests.Load(), "nothing was asked for")

	mirrors := lookup.Mirrors{}
	require.NoError(t, mirrors.Add("docker.io", server.host))
	push(t, server.image("library/app"), newImage(t, amd64, []string{"/mirrored"}, nil))
	asked, err = lookup.New(anonymous, lookup.Options{ForbidPrivateAddresses: true, Mirrors: mirrors}, ample)
	require.NoError(t, err)
	_, err = asked.Lookup(t.Context(), lookup.Query{Image: "app"})
	require.NoError(t, err, "a mirror is the operator's own choice")
}

func TestARedirectDoesntLeadToAPrivateAddressEither(t *testing.T) {
	// The mirror may be connected to, what it redirects to may not.
	server, inside := newRegistry(t), newRegistry(t)
	server.intercept = func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, "http://localhost"+inside.host[strings.LastIndex(inside.host, ":"):]+r.URL.Path, http.StatusTemporaryRedirect)
		return true
	}
	mirrors := lookup.Mirrors{}
	require.NoError(t, mirrors.Add("registry.invalid", server.host))
	asked, err := lookup.New(anonymous, lookup.Options{ForbidPrivateAddresses: true, Mirrors: mirrors}, ample)
	require.NoError(t, err)
	_, err = asked.Lookup(t.Context(), lookup.Query{Image: "registry.invalid/app"})
	require.ErrorContains(t, err, "is not allowed")
	require.Zero(t, inside.heads.Load()+inside.manifests.Load())
}

func TestTheZeroOptionsAskAnyRegistry(t *testing.T) {
	server := newRegistry(t)
	push(t, server.image("app"), newImage(t, amd64, []string{"/entry"}, nil))
	asked, err := lookup.New(anonymous, lookup.Options{}, ample)
	require.NoError(t, err)
	for _, source := range []lookup.Source{lookup.Fetched, lookup.Remembered} {
		got, err := asked.Lookup(t.Context(), lookup.Query{Image: server.image("app")})
		require.NoError(t, err)
		require.Equal(t, source, got.Source)
	}
	got, err := asked.Lookup(t.Context(), lookup.Query{Image: server.image("app"), Namespace: "other"})
	require.NoError(t, err)
	require.Equal(t, lookup.Cached, got.Source)
}
