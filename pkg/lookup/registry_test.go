// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"context"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/registrytest"
)

func TestATagLeadsToItsCommandLineAndDigest(t *testing.T) {
	server := registrytest.New(t)
	pushed := registrytest.NewImage(t, registrytest.AMD64, []string{"/entry"}, []string{"cmd"})
	registrytest.Push(t, server.Image("app:1"), pushed)
	digest, err := pushed.Digest()
	require.NoError(t, err)

	for _, image := range []string{"app:1", "app:1@" + digest.String(), "app@" + digest.String()} {
		got, err := newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.Image(image), Namespace: "a"})
		require.NoError(t, err)
		require.Equal(t, []lookup.Config{{Platform: "linux/amd64", Entrypoint: []string{"/entry"}, Cmd: []string{"cmd"}}}, got.Configs)
		require.Equal(t, digest.String(), got.Digest)
		require.Equal(t, server.Image(strings.TrimSuffix(image, "@"+digest.String()))+"@"+digest.String(), got.Pinned)
	}
}

func TestAnIndexAnswersForEachOfItsPlatforms(t *testing.T) {
	server := registrytest.New(t)
	attestation := registrytest.NewImage(t, v1.Platform{OS: "unknown", Architecture: "unknown"}, nil, nil)
	windows := registrytest.NewImage(t, v1.Platform{OS: "windows", Architecture: "amd64"}, []string{"cmd.exe"}, nil)
	var index v1.ImageIndex = empty.Index
	for _, add := range []struct {
		image    v1.Image
		platform v1.Platform
	}{
		{registrytest.NewImage(t, registrytest.AMD64, []string{"/amd64"}, nil), registrytest.AMD64},
		{attestation, v1.Platform{OS: "unknown", Architecture: "unknown"}},
		{windows, v1.Platform{OS: "windows", Architecture: "amd64"}},
		{registrytest.NewImage(t, registrytest.ARM64, []string{"/arm64"}, nil), registrytest.ARM64},
	} {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: add.image, Descriptor: v1.Descriptor{MediaType: types.OCIManifestSchema1, Platform: &add.platform},
		})
	}
	registrytest.Push(t, server.Image("multi"), index)
	digest, err := index.Digest()
	require.NoError(t, err)

	got, err := newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.Image("multi")})
	require.NoError(t, err)
	require.Equal(t, digest.String(), got.Digest, "the index, so that each node picks its own")
	require.Equal(t, []lookup.Config{
		{Platform: "linux/amd64", Entrypoint: []string{"/amd64"}},
		{Platform: "linux/arm64/v8", Entrypoint: []string{"/arm64"}},
	}, got.Configs)
}

func TestFactsAreReadOnceADigestAndOpenedEachTime(t *testing.T) {
	server := registrytest.New(t)
	registrytest.Push(t, server.Image("app"), registrytest.NewImage(t, registrytest.AMD64, []string{"/entry"}, nil))
	server.Heads.Store(0) // pushing asked, too
	asked := newLookup(anonymous)
	for range 3 {
		_, err := asked.Lookup(t.Context(), lookup.Query{Image: server.Image("app")})
		require.NoError(t, err)
	}
	require.Equal(t, int64(1), server.Manifests.Load())
	require.Equal(t, int64(3), server.Heads.Load())
}

func TestAMovedTagIsNoticed(t *testing.T) {
	server := registrytest.New(t)
	asked := newLookup(anonymous)
	for _, entrypoint := range []string{"/old", "/new"} {
		registrytest.Push(t, server.Image("app"), registrytest.NewImage(t, registrytest.AMD64, []string{entrypoint}, nil))
		got, err := asked.Lookup(t.Context(), lookup.Query{Image: server.Image("app")})
		require.NoError(t, err)
		require.Equal(t, []string{entrypoint}, got.Configs[0].Entrypoint)
	}
}

func TestATenantWithoutCredentialsNeverLearnsWhatIsCached(t *testing.T) {
	server := registrytest.New(t)
	registrytest.Push(t, server.Image("private"), registrytest.NewImage(t, registrytest.AMD64, []string{"/secret-command-line"}, nil))
	server.Intercept = registrytest.RequireBasic("a", "password")
	asked := lookup.Remember(newLookup(func(_ context.Context, query lookup.Query, _ authn.Resource) iter.Seq2[authn.Authenticator, error] {
		if query.Namespace == "a" {
			return credentials(&authn.Basic{Username: "a", Password: "password"})
		}
		return credentials(authn.Anonymous)
	}), ample)

	got, err := asked.Lookup(t.Context(), lookup.Query{Image: server.Image("private"), Namespace: "a"})
	require.NoError(t, err)
	require.Equal(t, []string{"/secret-command-line"}, got.Configs[0].Entrypoint)

	for _, ref := range []string{server.Image("private"), got.Pinned} {
		_, err = asked.Lookup(t.Context(), lookup.Query{Image: ref, Namespace: "b"})
		registrytest.RequireReason(t, err, lookup.Unauthorized, `namespace "b"`, "imagePullSecrets")
		require.NotContains(t, err.Error(), "secret-command-line")
	}
}

func TestContentThatIsNoImageIsReportedAsSuch(t *testing.T) {
	server := registrytest.New(t)
	artifact := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.example.chart+json")
	registrytest.Push(t, server.Image("chart"), artifact)
	_, err := newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.Image("chart")})
	registrytest.RequireReason(t, err, lookup.NotAnImage, "application/vnd.example.chart+json")

	registrytest.Push(t, server.Image("nothing"), empty.Index)
	_, err = newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.Image("nothing")})
	registrytest.RequireReason(t, err, lookup.NotAnImage, "without any image for Linux")
}

func TestLongResponsesAreNotRead(t *testing.T) {
	server := registrytest.New(t)
	registrytest.Push(t, server.Image("long"), registrytest.NewImage(t, registrytest.AMD64, []string{strings.Repeat("x", lookup.MaxConfigBytes+1)}, nil))
	_, err := newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.Image("long")})
	registrytest.RequireReason(t, err, lookup.RegistryError, "longer than 1048576 bytes")

	registrytest.Push(t, server.Image("many"), registrytest.NewImage(t, registrytest.AMD64, make([]string, 8192), nil))
	_, err = newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.Image("many")})
	registrytest.RequireReason(t, err, lookup.NotAnImage, "command lines of 131083 bytes")
}

func TestARegistryThatNamesAnothersDigestLearnsNothing(t *testing.T) {
	server, evil := registrytest.New(t), registrytest.New(t)
	private := registrytest.NewImage(t, registrytest.AMD64, []string{"/secret-command-line"}, nil)
	registrytest.Push(t, server.Image("private"), private)
	digest, err := private.Digest()
	require.NoError(t, err)
	evil.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodHead {
			return false
		}
		w.Header().Set("Content-Type", string(types.DockerManifestSchema2))
		w.Header().Set("Content-Length", "1")
		w.Header().Set("Docker-Content-Digest", digest.String())
		return true
	}
	asked := newLookup(anonymous)
	_, err = asked.Lookup(t.Context(), lookup.Query{Image: server.Image("private"), Namespace: "a"})
	require.NoError(t, err)
	for _, image := range []string{"app:1", "app@" + digest.String()} {
		_, err = asked.Lookup(t.Context(), lookup.Query{Image: evil.Image(image), Namespace: "b"})
		registrytest.RequireReason(t, err, lookup.NotFound)
	}
}

func TestTheAnswerOfAServiceThatIsNoRegistryIsNotPassedOn(t *testing.T) {
	server := registrytest.New(t)
	server.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		http.Error(w, "internal: token=hunter2", http.StatusBadRequest)
		return true
	}
	_, err := newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.Image("app")})
	registrytest.RequireReason(t, err, lookup.RegistryError, "400 Bad Request")
	require.NotContains(t, err.Error(), "hunter2")
}

func TestARegistryWithoutHEADIsAskedWithGET(t *testing.T) {
	server := registrytest.New(t)
	image, err := random.Image(16, 1)
	require.NoError(t, err)
	registrytest.Push(t, server.Image("app"), mutate.MediaType(image, types.DockerManifestSchema2))
	server.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return true
		}
		return false
	}
	_, err = newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.Image("app")})
	require.NoError(t, err)
}
