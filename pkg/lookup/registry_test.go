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
)

func TestATagLeadsToItsCommandLineAndDigest(t *testing.T) {
	server := newRegistry(t)
	pushed := newImage(t, amd64, []string{"/entry"}, []string{"cmd"})
	push(t, server.image("app:1"), pushed)
	digest, err := pushed.Digest()
	require.NoError(t, err)

	for _, image := range []string{"app:1", "app:1@" + digest.String(), "app@" + digest.String()} {
		got, err := newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.image(image), Namespace: "a"})
		require.NoError(t, err)
		require.Equal(t, []lookup.Config{{Platform: "linux/amd64", Entrypoint: []string{"/entry"}, Cmd: []string{"cmd"}}}, got.Configs)
		require.Equal(t, digest.String(), got.Digest)
		require.Equal(t, server.image(strings.TrimSuffix(image, "@"+digest.String()))+"@"+digest.String(), got.Pinned)
	}
}

func TestAnIndexAnswersForEachOfItsPlatforms(t *testing.T) {
	server := newRegistry(t)
	attestation := newImage(t, v1.Platform{OS: "unknown", Architecture: "unknown"}, nil, nil)
	windows := newImage(t, v1.Platform{OS: "windows", Architecture: "amd64"}, []string{"cmd.exe"}, nil)
	var index v1.ImageIndex = empty.Index
	for _, add := range []struct {
		image    v1.Image
		platform v1.Platform
	}{
		{newImage(t, amd64, []string{"/amd64"}, nil), amd64},
		{attestation, v1.Platform{OS: "unknown", Architecture: "unknown"}},
		{windows, v1.Platform{OS: "windows", Architecture: "amd64"}},
		{newImage(t, arm64, []string{"/arm64"}, nil), arm64},
	} {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: add.image, Descriptor: v1.Descriptor{MediaType: types.OCIManifestSchema1, Platform: &add.platform},
		})
	}
	push(t, server.image("multi"), index)
	digest, err := index.Digest()
	require.NoError(t, err)

	got, err := newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.image("multi")})
	require.NoError(t, err)
	require.Equal(t, digest.String(), got.Digest, "the index, so that each node picks its own")
	require.Equal(t, []lookup.Config{
		{Platform: "linux/amd64", Entrypoint: []string{"/amd64"}},
		{Platform: "linux/arm64/v8", Entrypoint: []string{"/arm64"}},
	}, got.Configs)
}

func TestFactsAreReadOnceADigestAndOpenedEachTime(t *testing.T) {
	server := newRegistry(t)
	push(t, server.image("app"), newImage(t, amd64, []string{"/entry"}, nil))
	server.heads.Store(0) // pushing asked, too
	asked := newLookup(anonymous)
	for range 3 {
		_, err := asked.Lookup(t.Context(), lookup.Query{Image: server.image("app")})
		require.NoError(t, err)
	}
	require.Equal(t, int64(1), server.manifests.Load())
	require.Equal(t, int64(3), server.heads.Load())
}

func TestAMovedTagIsNoticed(t *testing.T) {
	server := newRegistry(t)
	asked := newLookup(anonymous)
	for _, entrypoint := range []string{"/old", "/new"} {
		push(t, server.image("app"), newImage(t, amd64, []string{entrypoint}, nil))
		got, err := asked.Lookup(t.Context(), lookup.Query{Image: server.image("app")})
		require.NoError(t, err)
		require.Equal(t, []string{entrypoint}, got.Configs[0].Entrypoint)
	}
}

func TestATenantWithoutCredentialsNeverLearnsWhatIsCached(t *testing.T) {
	server := newRegistry(t)
	push(t, server.image("private"), newImage(t, amd64, []string{"/secret-command-line"}, nil))
	server.intercept = requireBasic("a", "password")
	asked := lookup.Remember(newLookup(func(_ context.Context, query lookup.Query, _ authn.Resource) iter.Seq2[authn.Authenticator, error] {
		if query.Namespace == "a" {
			return credentials(&authn.Basic{Username: "a", Password: "password"})
		}
		return credentials(authn.Anonymous)
	}), ample)

	got, err := asked.Lookup(t.Context(), lookup.Query{Image: server.image("private"), Namespace: "a"})
	require.NoError(t, err)
	require.Equal(t, []string{"/secret-command-line"}, got.Configs[0].Entrypoint)

	for _, ref := range []string{server.image("private"), got.Pinned} {
		_, err = asked.Lookup(t.Context(), lookup.Query{Image: ref, Namespace: "b"})
		requireReason(t, err, lookup.Unauthorized, `namespace "b"`, "imagePullSecrets")
		require.NotContains(t, err.Error(), "secret-command-line")
	}
}

func TestWhatIsNoImageIsSaidToBeNone(t *testing.T) {
	server := newRegistry(t)
	artifact := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.example.chart+json")
	push(t, server.image("chart"), artifact)
	_, err := newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.image("chart")})
	requireReason(t, err, lookup.NotAnImage, "application/vnd.example.chart+json")

	push(t, server.image("nothing"), empty.Index)
	_, err = newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.image("nothing")})
	requireReason(t, err, lookup.NotAnImage, "without any image for Linux")
}

func TestWhatIsTooLongIsNotRead(t *testing.T) {
	server := newRegistry(t)
	push(t, server.image("long"), newImage(t, amd64, []string{strings.Repeat("x", lookup.MaxConfigBytes+1)}, nil))
	_, err := newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.image("long")})
	requireReason(t, err, lookup.RegistryError, "longer than 1048576 bytes")

	push(t, server.image("many"), newImage(t, amd64, make([]string, 9000), nil))
	_, err = newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.image("many")})
	requireReason(t, err, lookup.NotAnImage, "command lines of 144000 bytes")
}

func TestARegistryThatNamesAnothersDigestLearnsNothing(t *testing.T) {
	server, evil := newRegistry(t), newRegistry(t)
	private := newImage(t, amd64, []string{"/secret-command-line"}, nil)
	push(t, server.image("private"), private)
	digest, err := private.Digest()
	require.NoError(t, err)
	evil.intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodHead {
			return false
		}
		w.Header().Set("Content-Type", string(types.DockerManifestSchema2))
		w.Header().Set("Content-Length", "1")
		w.Header().Set("Docker-Content-Digest", digest.String())
		return true
	}
	asked := newLookup(anonymous)
	_, err = asked.Lookup(t.Context(), lookup.Query{Image: server.image("private"), Namespace: "a"})
	require.NoError(t, err)
	for _, image := range []string{"app:1", "app@" + digest.String()} {
		_, err = asked.Lookup(t.Context(), lookup.Query{Image: evil.image(image), Namespace: "b"})
		requireReason(t, err, lookup.NotFound)
	}
}

func TestWhatAServiceThatIsNoRegistrySaysIsNotPassedOn(t *testing.T) {
	server := newRegistry(t)
	server.intercept = func(w http.ResponseWriter, r *http.Request) bool {
		http.Error(w, "internal: token=hunter2", http.StatusBadRequest)
		return true
	}
	_, err := newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.image("app")})
	requireReason(t, err, lookup.RegistryError, "400 Bad Request")
	require.NotContains(t, err.Error(), "hunter2")
}

func TestARegistryWithoutHEADIsAskedWithGET(t *testing.T) {
	server := newRegistry(t)
	image, err := random.Image(16, 1)
	require.NoError(t, err)
	push(t, server.image("app"), mutate.MediaType(image, types.DockerManifestSchema2))
	server.intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return true
		}
		return false
	}
	_, err = newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.image("app")})
	require.NoError(t, err)
}
