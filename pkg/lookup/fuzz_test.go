// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/registrytest"
)

// A registry may answer anything. The fuzzer writes the manifest and the config
// that it serves; "CONFIG" and "SIZE" in the manifest become the config's digest
// and size, so that it can be found.
func FuzzRegistryAnswers(f *testing.F) {
	manifest := `{"schemaVersion":2,"mediaType":"%s","config":{"mediaType":"%s","digest":"CONFIG","size":SIZE},"layers":[]}`
	config := []byte(`{"os":"linux","architecture":"amd64","config":{"Entrypoint":["/entry"],"Cmd":["a","$b"]}}`)
	f.Add(200, string(types.OCIManifestSchema1), fmt.Appendf(nil, manifest, types.OCIManifestSchema1, types.OCIConfigJSON), config)
	f.Add(200, string(types.DockerManifestSchema2), fmt.Appendf(nil, manifest, types.DockerManifestSchema2, types.DockerConfigJSON), config)
	f.Add(200, string(types.OCIManifestSchema1), fmt.Appendf(nil, manifest, types.OCIManifestSchema1, "application/vnd.example+json"), config)
	f.Add(200, string(types.OCIImageIndex), []byte(`{"schemaVersion":2,"manifests":[{"mediaType":"`+string(types.OCIManifestSchema1)+`","digest":"CONFIG","size":SIZE,"platform":{"os":"linux","architecture":"arm64","variant":"v8"}}]}`),
		[]byte(`{"schemaVersion":2,"config":{"mediaType":"`+string(types.OCIConfigJSON)+`","digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000","size":2}}`))
	f.Add(401, "text/plain", []byte("no"), []byte("{}"))
	f.Add(429, "", []byte{}, []byte{})
	f.Add(200, string(types.OCIManifestSchema1), []byte("{"), []byte("null"))
	f.Add(200, "text/html", []byte("<html>"), []byte(`{"config":{"Entrypoint":"/entry"}}`))

	f.Fuzz(func(t *testing.T, status int, mediaType string, manifest, config []byte) {
		if status < 200 || status > 599 {
			return
		}
		manifest = bytes.ReplaceAll(manifest, []byte("CONFIG"), []byte(digestOf(config)))
		manifest = bytes.ReplaceAll(manifest, []byte("SIZE"), []byte(strconv.Itoa(len(config))))
		transport := registrytest.Answering(func(w http.ResponseWriter, r *http.Request) {
			body := manifest
			switch {
			case strings.HasSuffix(r.URL.Path, "/v2/"):
				return
			case strings.HasSuffix(r.URL.Path, digestOf(config)):
				body = config
			case strings.Contains(r.URL.Path, "/blobs/"):
				w.WriteHeader(http.StatusNotFound)
				return
			}
			w.Header().Set("Content-Type", mediaType)
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			w.Header().Set("Docker-Content-Digest", digestOf(body))
			w.WriteHeader(status)
			if r.Method == http.MethodGet {
				_, _ = w.Write(body)
			}
		})
		asked := lookup.Remember(lookup.NewRegistry(anonymous, transport, lookup.Options{}), ample)
		image, err := asked.Lookup(t.Context(), lookup.Query{Image: "registry.example/app"})
		if err != nil {
			var failure *lookup.Error
			if !errors.As(err, &failure) || !strings.Contains(err.Error(), "set command:") {
				t.Fatalf("Lookup() = %v, which isn't for users", err)
			}
			if strings.Contains(err.Error(), "internal error") {
				t.Fatal(err)
			}
			return
		}
		if len(image.Configs) == 0 || !strings.HasSuffix(image.Pinned, "@"+image.Digest) {
			t.Fatalf("Lookup() = %+v", image)
		}
	})
}

func digestOf(blob []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(blob)) }
