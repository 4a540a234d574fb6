// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/registrytest"
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

// nobody is a Lookuper that fails the test when it is called.
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
	registrytest.RequireReason(t, err, lookup.NotAllowed, `"ghcr.io/team-a/app" is not allowed (allowed in this namespace: `, "have the operator")
}

func TestARefusalSaysWhatIsAllowedInTheNamespace(t *testing.T) {
	patterns := func(texts ...string) (list []lookup.Pattern) {
		for _, text := range texts {
			pattern, err := lookup.ParsePattern(text)
			require.NoError(t, err)
			list = append(list, pattern)
		}
		return list
	}
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("r%d.example", i))
	}
	for says, list := range map[string]lookup.AllowList{
		"(allowed in this namespace: quay.io, *.example)": {Everywhere: patterns("*.example"), Namespaces: map[string][]lookup.Pattern{"team-a": patterns("quay.io"), "team-b": patterns("ghcr.io")}},
		"(no registry is allowed in this namespace)":      {Namespaces: map[string][]lookup.Pattern{"team-b": patterns("ghcr.io")}},
		"r6.example, r7.example, and 12 more)":            {Everywhere: patterns(many...)},
	} {
		_, err := lookup.Restrict(nobody(t), list).Lookup(t.Context(), lookup.Query{Image: "ghcr.io/app", Namespace: "team-a"})
		registrytest.RequireReason(t, err, lookup.NotAllowed, `repository "ghcr.io/app" is not allowed`, says)
	}
}

func TestAPatternThatMatchesNothingIsRefused(t *testing.T) {
	for _, text := range []string{"", "*.", "**", "https://docker.io", "docker.io/", "docker.io/Library", "a b", "docker.io/a:tag", "*.*.example", "library"} {
		_, err := lookup.ParsePattern(text)
		require.ErrorContains(t, err, "such as", text)
	}
}

func TestAStaticImageNeedsNoRegistry(t *testing.T) {
	static := lookup.StaticImages{}
	require.NoError(t, static.Add("tools/build:1", lookup.Config{Entrypoint: []string{"/build"}}))
	known := lookup.WithStaticImages(nobody(t), static)
	for _, image := range []string{"tools/build:1", "docker.io/tools/build:1", "index.docker.io/tools/build:1"} {
		got, err := known.Lookup(t.Context(), lookup.Query{Image: image})
		require.NoError(t, err)
		require.Equal(t, &lookup.Image{Pinned: image, Configs: []lookup.Config{{Entrypoint: []string{"/build"}}}, Source: lookup.Static}, got)
	}
	require.ErrorContains(t, static.Add("tools/empty", lookup.Config{}), "neither entrypoint nor cmd")
	require.ErrorContains(t, static.Add("UPPER", lookup.Config{Cmd: []string{"x"}}), `"UPPER" is no image`)
}

func TestMirrorsAreAskedFirstAndTheRegistryLast(t *testing.T) {
	server, mirror := registrytest.New(t), registrytest.New(t)
	registrytest.Push(t, server.Image("library/app"), registrytest.NewImage(t, registrytest.AMD64, []string{"/upstream"}, nil))
	registrytest.Push(t, mirror.Image("hub/library/app"), registrytest.NewImage(t, registrytest.AMD64, []string{"/mirrored"}, nil))
	registrytest.Push(t, server.Image("library/new"), registrytest.NewImage(t, registrytest.AMD64, []string{"/upstream"}, nil))
	mirrors := lookup.Mirrors{}
	require.NoError(t, mirrors.Add(server.Host, "mirror.invalid", mirror.Host+"/hub"))
	asked := lookup.NewRegistry(anonymous, http.DefaultTransport, lookup.Options{Mirrors: mirrors})

	got, err := asked.Lookup(t.Context(), lookup.Query{Image: server.Image("library/app:latest")})
	require.NoError(t, err)
	require.Equal(t, []string{"/mirrored"}, got.Configs[0].Entrypoint)
	require.True(t, strings.HasPrefix(got.Pinned, server.Image("library/app:latest@sha256:")), "pinned under the author's name: %s", got.Pinned)

	got, err = asked.Lookup(t.Context(), lookup.Query{Image: server.Image("library/new")})
	require.NoError(t, err)
	require.Equal(t, []string{"/upstream"}, got.Configs[0].Entrypoint, "the mirror doesn't have it")

	_, err = asked.Lookup(t.Context(), lookup.Query{Image: server.Image("library/missing")})
	registrytest.RequireReason(t, err, lookup.NotFound, "a mirror:", "mirror.invalid")
}

func TestAMirrorThatHangsLeavesTimeForTheRegistry(t *testing.T) {
	t.Parallel()
	server, mirror := registrytest.New(t), registrytest.New(t)
	registrytest.Push(t, server.Image("app"), registrytest.NewImage(t, registrytest.AMD64, []string{"/upstream"}, nil))
	mirror.Intercept = func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }
	mirrors := lookup.Mirrors{}
	require.NoError(t, mirrors.Add(server.Host, mirror.Host))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := lookup.NewRegistry(anonymous, http.DefaultTransport, lookup.Options{Mirrors: mirrors}).Lookup(ctx, lookup.Query{Image: server.Image("app")})
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
		asked, err := lookup.New(anonymous, lookup.Options{Certificates: test.certificates}.WithLoopback(), ample)
		require.NoError(t, err)
		_, err = asked.Lookup(t.Context(), lookup.Query{Image: host + "/app"})
		registrytest.RequireReason(t, err, test.reason, test.says)
	}
	_, err := lookup.New(anonymous, lookup.Options{Certificates: "not PEM"}, time.Second)
	require.ErrorContains(t, err, "-----BEGIN CERTIFICATE-----")
}

func TestTheZeroOptionsAskAnyRegistry(t *testing.T) {
	server := registrytest.New(t)
	registrytest.Push(t, server.Image("app"), registrytest.NewImage(t, registrytest.AMD64, []string{"/entry"}, nil))
	asked, err := lookup.New(anonymous, lookup.Options{}.WithLoopback(), ample)
	require.NoError(t, err)
	for _, source := range []lookup.Source{lookup.Fetched, lookup.Remembered} {
		got, err := asked.Lookup(t.Context(), lookup.Query{Image: server.Image("app")})
		require.NoError(t, err)
		require.Equal(t, source, got.Source)
	}
	got, err := asked.Lookup(t.Context(), lookup.Query{Image: server.Image("app"), Namespace: "other"})
	require.NoError(t, err)
	require.Equal(t, lookup.Cached, got.Source)
}
