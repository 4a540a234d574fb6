// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/registrytest"
)

// serving answers with one manifest of this type, whatever is asked for, and
// with one config.
func serving(mediaType types.MediaType, manifest, config []byte) registrytest.Answering {
	return func(w http.ResponseWriter, r *http.Request) {
		body := manifest
		switch {
		case r.URL.Path == "/v2/":
			return
		case strings.Contains(r.URL.Path, "/blobs/"):
			body = config
		}
		w.Header().Set("Content-Type", string(mediaType))
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.Header().Set("Docker-Content-Digest", digestOf(body))
		if r.Method == http.MethodGet {
			_, _ = w.Write(body)
		}
	}
}

// list is JSON as long as a manifest may be: as many elements as fit between
// what comes before and after.
func list(before, element, after string) []byte {
	return listOf(lookup.MaxManifestBytes, before, element, after)
}

func listOf(bytes int, before, element, after string) []byte {
	n := (bytes - len(before) - len(after)) / (len(element) + 1)
	return []byte(before + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + after)
}

// A lookup may take a few times the length of what it reads, and no more.
func TestTheMemoryOfAnAnswerIsBoundedByItsLength(t *testing.T) {
	config := []byte(`{"os":"linux","architecture":"amd64","config":{"Entrypoint":["/entry"]}}`)
	describe := fmt.Sprintf(`"config":{"mediaType":%q,"digest":%q,"size":%d}`, types.OCIConfigJSON, digestOf(config), len(config))
	words := listOf(lookup.MaxConfigBytes, `{"config":{"Cmd":[`, `""`, `]}}`)
	ofWords := fmt.Sprintf(`{"config":{"mediaType":%q,"digest":%q}}`, types.OCIConfigJSON, digestOf(words))
	for name, test := range map[string]struct {
		mediaType types.MediaType
		manifest  []byte
		config    []byte
		reason    lookup.Reason // empty if it is looked up
		says      string
	}{
		"an index of a million entries":       {types.OCIImageIndex, list(`{"manifests":[`, `{}`, `]}`), nil, lookup.NotAnImage, "more than 1000 entries"},
		"an index of a million lists":         {types.OCIImageIndex, list(`{`, `"manifests":[{}]`, `}`), nil, lookup.NotAnImage, "more than 1000 entries"},
		"an index of a million numbers":       {types.OCIImageIndex, list(`{"manifests":[`, `1`, `]}`), nil, lookup.RegistryError, "isn't JSON of that form"},
		"an index of a million lists of none": {types.OCIImageIndex, list(`{"manifests":[`, `[]`, `]}`), nil, lookup.RegistryError, "isn't JSON of that form"},
		"a manifest of a million layers":      {types.OCIManifestSchema1, list(`{`+describe+`,"layers":[`, `{}`, `]}`), config, "", ""},
		"a manifest of a million annotations": {types.OCIManifestSchema1, list(`{`+describe+`,"annotations":{`, `"":""`, `}}`), config, "", ""},
		"a manifest as deep as it is long":    {types.OCIManifestSchema1, bytes.Repeat([]byte("["), lookup.MaxManifestBytes), nil, lookup.RegistryError, "isn't JSON of that form"},
		"a config of a million words":         {types.OCIManifestSchema1, []byte(ofWords), words, lookup.NotAnImage, "command lines of"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := lookup.NewRegistry(anonymous, serving(test.mediaType, test.manifest, test.config), lookup.Options{})
			var err error
			allocated := allocatedBy(func() {
				_, err = asked.Lookup(t.Context(), lookup.Query{Image: "registry.example/app", Namespace: "a"})
			})
			if test.reason == "" {
				require.NoError(t, err)
			} else {
				registrytest.RequireReason(t, err, test.reason, test.says)
			}
			// The registry, in this process, takes some of it as well.
			require.Less(t, allocated, uint64(40<<20), "bytes allocated")
		})
	}
}

func TestAHeaderOfTenMegabytesIsNotRead(t *testing.T) {
	server := registrytest.New(t)
	server.Intercept = func(w http.ResponseWriter, _ *http.Request) bool {
		for i := range 10 {
			w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 1<<20))
		}
		return true
	}
	asked, err := lookup.New(anonymous, lookup.Options{}.WithLoopback(), ample)
	require.NoError(t, err)
	_, err = asked.Lookup(t.Context(), lookup.Query{Image: server.Image("app")})
	registrytest.RequireReason(t, err, lookup.RegistryError, "isn't a registry's")
}

// liveAfter is how many bytes more are in use after do than before.
func liveAfter(do func()) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	do()
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// Dry runs count against no quota, so a tenant can send pods without end.
func TestTheKeptTextOfPodsIsBounded(t *testing.T) {
	asked, err := lookup.New(anonymous, lookup.Options{Allowed: lookup.AllowList{Everywhere: patterns(t, "nobody.example")}}, ample)
	require.NoError(t, err)
	t.Run("names of two megabytes", func(t *testing.T) {
		require.Less(t, liveAfter(func() {
			for i := range 150 {
				image := fmt.Sprint("registry.example/", i, strings.Repeat("/x", 1<<20))
				_, err := asked.Lookup(t.Context(), lookup.Query{Image: image, Namespace: "a"})
				registrytest.RequireReason(t, err, lookup.InvalidReference, "a reference has at most 1024")
			}
		}), int64(8<<20))
	})
	t.Run("forty thousand pull secrets", func(t *testing.T) {
		require.Less(t, liveAfter(func() {
			for i := range 60 {
				query := lookup.Query{Image: fmt.Sprint("registry.example/app:", i), Namespace: "a"}
				for j := range 40_000 {
					query.PullSecrets = append(query.PullSecrets, fmt.Sprint("secret-", i, "-", j))
				}
				_, err := asked.Lookup(t.Context(), query)
				registrytest.RequireReason(t, err, lookup.NotAllowed)
			}
		}), int64(8<<20))
	})
	t.Run("twenty thousand pods", func(t *testing.T) {
		require.Less(t, liveAfter(func() {
			for i := range 20_000 {
				_, err := asked.Lookup(t.Context(), lookup.Query{Image: fmt.Sprint("registry.example/app:", i), Namespace: "a"})
				if err == nil {
					t.Error("allowed")
				}
			}
		}), int64(8<<20))
	})
	runtime.KeepAlive(asked)
}

// A registry that opens manifests and then falls silent.
func TestATenantWhoseRegistryStallsDelaysNobodyElse(t *testing.T) {
	stalling, other := registrytest.New(t), registrytest.New(t)
	registrytest.Push(t, stalling.Image("app"), registrytest.NewImage(t, registrytest.AMD64, []string{"/entry"}, nil))
	registrytest.Push(t, other.Image("app"), registrytest.NewImage(t, registrytest.AMD64, []string{"/entry"}, nil))
	var stalled atomic.Int64
	stalling.Intercept = onGet("manifests", func(_ http.ResponseWriter, r *http.Request) {
		stalled.Add(1)
		<-r.Context().Done()
	})
	asked := newLookup(anonymous)
	ctx, cancel := context.WithCancel(t.Context())
	var greedy sync.WaitGroup
	defer greedy.Wait()
	defer cancel()
	for range 200 {
		greedy.Go(func() {
			_, err := asked.Lookup(ctx, lookup.Query{Image: stalling.Image("app"), Namespace: "greedy"})
			if err == nil {
				t.Error("a stalled lookup succeeded")
			}
		})
	}
	require.Eventually(t, func() bool { return stalled.Load() >= 32 }, ample, time.Millisecond, "its share is used up")
	_, err := asked.Lookup(t.Context(), lookup.Query{Image: other.Image("app"), Namespace: "modest"})
	require.NoError(t, err)
	require.Equal(t, int64(32), stalled.Load(), "no more than its share")

	impatient, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	_, err = asked.Lookup(impatient, lookup.Query{Image: stalling.Image("app"), Namespace: "greedy"})
	registrytest.RequireReason(t, err, lookup.Busy, "too many lookups are under way")
}

func TestTheIndexSaysForWhichPlatformAnImageIs(t *testing.T) {
	server := registrytest.New(t)
	image := registrytest.NewImage(t, registrytest.AMD64, []string{"/entry"}, nil)
	said := v1.Platform{OS: "linux", Architecture: "riscv64"}
	for name, platform := range map[string]*v1.Platform{"linux/riscv64": &said, "linux/amd64": nil} {
		index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{MediaType: types.OCIManifestSchema1, Platform: platform},
		})
		// The helper fills in what the config says.
		raw, err := index.RawManifest()
		require.NoError(t, err)
		if platform == nil {
			require.NotContains(t, string(raw), "platform")
		}
		registrytest.Push(t, server.Image("app"), index)
		got, err := newLookup(anonymous).Lookup(t.Context(), lookup.Query{Image: server.Image("app")})
		require.NoError(t, err)
		require.Equal(t, name, got.Configs[0].Platform)
	}
}

func TestARepositoryMayHaveOneLetter(t *testing.T) {
	manifest := internetManifest
	asked := lookup.NewRegistry(anonymous, serving(types.OCIManifestSchema1, manifest, internetConfig), lookup.Options{})
	got, err := asked.Lookup(t.Context(), lookup.Query{Image: "registry.example/b"})
	require.NoError(t, err)
	require.Equal(t, "registry.example/b@"+digestOf(manifest), got.Pinned)
}

func TestAnInvalidDigestIsNotRequested(t *testing.T) {
	for _, evil := range []string{"../../../other/manifests/x", "sha256:x", "", "x?y=z", "sha256:../../secret"} {
		index := fmt.Appendf(nil, `{"manifests":[{"mediaType":%q,"digest":%q,"platform":{"os":"linux","architecture":"amd64"}}]}`, types.OCIManifestSchema1, evil)
		var paths []string
		inner := serving(types.OCIImageIndex, index, nil)
		asked := lookup.NewRegistry(anonymous, registrytest.Answering(func(w http.ResponseWriter, r *http.Request) {
			paths = append(paths, r.URL.Path)
			inner(w, r)
		}), lookup.Options{})
		_, err := asked.Lookup(t.Context(), lookup.Query{Image: "registry.example/app"})
		registrytest.RequireReason(t, err, lookup.RegistryError, "the registry sent an invalid digest")
		require.Equal(t, []string{"/v2/", "/v2/app/manifests/latest", "/v2/app/manifests/" + digestOf(index)}, paths)
	}
}
