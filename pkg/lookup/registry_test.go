// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/lookup"
)

// A registryServer is a real registry, in this process, behind a handler that
// may misbehave, and that counts.
type registryServer struct {
	host      string
	manifests atomic.Int64 // GETs of manifests
	heads     atomic.Int64 // HEADs of manifests
	intercept func(http.ResponseWriter, *http.Request) bool
}

func newRegistry(t *testing.T) *registryServer {
	t.Helper()
	s := &registryServer{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.intercept != nil && s.intercept(w, r) {
			return
		}
		if strings.Contains(r.URL.Path, "/manifests/") {
			switch r.Method {
			case http.MethodGet:
				s.manifests.Add(1)
			case http.MethodHead:
				s.heads.Add(1)
			}
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.host = strings.TrimPrefix(server.URL, "http://")
	return s
}

func (s *registryServer) image(repo string) string { return s.host + "/" + repo }

func push(t *testing.T, ref string, what remote.Taggable) {
	t.Helper()
	parsed, err := name.ParseReference(ref)
	require.NoError(t, err)
	require.NoError(t, remote.Push(parsed, what))
}

func newImage(t *testing.T, platform v1.Platform, entrypoint, cmd []string) v1.Image {
	t.Helper()
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant,
		Config: v1.Config{Entrypoint: entrypoint, Cmd: cmd},
	})
	require.NoError(t, err)
	return image
}

var (
	amd64 = v1.Platform{OS: "linux", Architecture: "amd64"}
	arm64 = v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}
)

// anonymous asks without credentials, whoever asks.
func anonymous(context.Context, lookup.Query) (authn.Keychain, error) {
	return authn.NewMultiKeychain(), nil
}

func newLookup(keychains lookup.Keychains) *lookup.Registry {
	return lookup.NewRegistry(keychains, http.DefaultTransport)
}

func requireReason(t *testing.T, err error, reason lookup.Reason, says ...string) {
	t.Helper()
	var failure *lookup.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, reason, failure.Reason, "error: %v", err)
	for _, words := range append(says, "set command:") {
		require.ErrorContains(t, err, words)
	}
}

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
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("a:password"))
	server.intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == want {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	asked := lookup.Remember(newLookup(func(_ context.Context, query lookup.Query) (authn.Keychain, error) {
		if query.Namespace == "a" {
			return fixed{&authn.Basic{Username: "a", Password: "password"}}, nil
		}
		return fixed{authn.Anonymous}, nil
	}), time.Second)

	got, err := asked.Lookup(t.Context(), lookup.Query{Image: server.image("private"), Namespace: "a"})
	require.NoError(t, err)
	require.Equal(t, []string{"/secret-command-line"}, got.Configs[0].Entrypoint)

	for _, ref := range []string{server.image("private"), got.Pinned} {
		_, err = asked.Lookup(t.Context(), lookup.Query{Image: ref, Namespace: "b"})
		requireReason(t, err, lookup.Unauthorized, `namespace "b"`, "imagePullSecrets")
		require.NotContains(t, err.Error(), "secret-command-line")
	}
}

type fixed struct{ authn.Authenticator }

func (f fixed) Resolve(authn.Resource) (authn.Authenticator, error) { return f.Authenticator, nil }

func TestEveryFailureSaysWhatToDo(t *testing.T) {
	status := func(code int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(code); return true }
	}
	for name, test := range map[string]struct {
		image     string
		intercept func(http.ResponseWriter, *http.Request) bool
		reason    lookup.Reason
	}{
		"no such image":             {image: "missing", reason: lookup.NotFound},
		"a name that doesn't parse": {image: "UPPER CASE", reason: lookup.InvalidReference},
		"refused":                   {image: "app", intercept: status(http.StatusForbidden), reason: lookup.Unauthorized},
		"too many requests":         {image: "app", intercept: status(http.StatusTooManyRequests), reason: lookup.RegistryError},
		"the registry's own fault":  {image: "app", intercept: status(http.StatusInternalServerError), reason: lookup.RegistryError},
		"redirected for ever": {image: "app", intercept: func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, r.URL.String(), http.StatusTemporaryRedirect)
			return true
		}, reason: lookup.Unreachable},
		"no answer in time": {image: "app", intercept: func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}, reason: lookup.Timeout},
		"an answer without end": {image: "app", intercept: func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					break
				}
			}
			return true
		}, reason: lookup.RegistryError},
		"malformed JSON": {image: "app", intercept: func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
			_, _ = w.Write([]byte(`{"config": `))
			return true
		}, reason: lookup.RegistryError},
	} {
		t.Run(name, func(t *testing.T) {
			server := newRegistry(t)
			push(t, server.image("app"), newImage(t, amd64, []string{"/entry"}, nil))
			server.intercept = test.intercept
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			query := lookup.Query{Image: server.image(test.image), Namespace: "a"}
			_, err := newLookup(anonymous).Lookup(ctx, query)
			requireReason(t, err, test.reason, fmt.Sprintf("%q", query.Image), `namespace "a"`)
		})
	}
}

func TestAHostThatDoesntAnswerIsUnreachable(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: strings.TrimPrefix(server.URL, "http://") + "/app"})
	requireReason(t, err, lookup.Unreachable, "try again")
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
