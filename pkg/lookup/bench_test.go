// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/registrytest"
)

// The answer that the same asker got seconds ago.
func BenchmarkRememberedLookup(b *testing.B) {
	answer := &lookup.Image{Digest: "sha256:0", Configs: []lookup.Config{{Entrypoint: []string{"/entry"}}}}
	asked := lookup.Remember(lookups(func(context.Context, lookup.Query) (*lookup.Image, error) {
		return answer, nil
	}), time.Second)
	query := lookup.Query{
		Image: "registry.example/team/app:1.2.3", Namespace: "tenant", ServiceAccount: "builder", PullSecrets: []string{"pull"},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := asked.Lookup(b.Context(), query); err != nil {
			b.Fatal(err)
		}
	}
}

// A new asker looks up an image whose facts are cached: the registry, in this process,
// opens the manifest.
func BenchmarkCachedLookup(b *testing.B) {
	config := []byte(`{"os":"linux","architecture":"amd64","config":{"Entrypoint":["/entry"]}}`)
	image := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q,"digest":%q,"size":%d},"layers":[]}`,
		types.OCIManifestSchema1, types.OCIConfigJSON, digestOf(config), len(config))
	transport := registrytest.Answering(func(w http.ResponseWriter, r *http.Request) {
		body := image
		if strings.Contains(r.URL.Path, "/blobs/") {
			body = config
		}
		w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.Header().Set("Docker-Content-Digest", digestOf(image))
		if r.Method == http.MethodGet && !strings.HasSuffix(r.URL.Path, "/v2/") {
			_, _ = w.Write(body)
		}
	})
	asked := lookup.NewRegistry(anonymous, transport, lookup.Options{})
	query := lookup.Query{Image: "registry.example/team/app:1.2.3", Namespace: "tenant"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := asked.Lookup(b.Context(), query); err != nil {
			b.Fatal(err)
		}
	}
}
