// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	ggcrtypes "github.com/google/go-containerregistry/pkg/v1/types"
)

// registryHost is the address of the registry. Clients speak plain HTTP with a private
// address.
const registryHost = address + ":5000"

// repository returns the repository of an image.
func repository(i int) string { return fmt.Sprint("team/image-", i) }

// tagged returns the reference of an image of the registry, by its tag.
func tagged(i int) (string, error) { return registryHost + "/" + repository(i) + ":v1", nil }

// pinnedOrTagged is tagged for every other image, and has the digest of the others, as
// Knative's pods do: an answer for such a reference is kept in one more cache.
func pinnedOrTagged(i int) (string, error) {
	if i%2 == 0 {
		return tagged(i)
	}
	manifest, _, err := imageOf(repository(i))
	return registryHost + "/" + repository(i) + "@" + digestOf(manifest), err
}

// serveImages serves an image of its own in each repository that is asked for, without
// storing layers.
func serveImages(ctx context.Context) (stop func(), _ error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", registryHost)
	if err != nil {
		return nil, fmt.Errorf("serving images: %w", err)
	}
	server := &http.Server{Handler: &imageServer{}, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		_ = server.Serve(listener)
		close(done)
	}()
	return func() {
		_ = server.Close()
		<-done
	}, nil
}

type imageServer struct{ configs sync.Map } // by digest

// ServeHTTP implements http.Handler.
func (s *imageServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if digest, ok := after(r.URL.Path, "/blobs/"); ok {
		config, known := s.configs.Load(digest)
		if !known {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(config.([]byte)) //nolint:gosec // G705: no browser reads it
		return
	}
	reference, ok := after(r.URL.Path, "/manifests/")
	if !ok {
		return // GET /v2/: no authentication
	}
	repository := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v2/"), "/manifests/"+reference)
	manifest, config, err := imageOf(repository)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.configs.Store(digestOf(config), config)
	w.Header().Set("Content-Type", string(ggcrtypes.DockerManifestSchema2))
	w.Header().Set("Docker-Content-Digest", digestOf(manifest))
	w.Header().Set("Content-Length", fmt.Sprint(len(manifest)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(manifest)
	}
}

// imageOf returns the manifest and the configuration of a repository's image.
func imageOf(repository string) (manifest, config []byte, err error) {
	config, err = json.Marshal(v1.ConfigFile{
		OS: "linux", Architecture: "amd64", RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Entrypoint: []string{"/usr/bin/" + repository}, Cmd: []string{"--serve"}},
	})
	if err != nil {
		return nil, nil, err
	}
	hash, err := v1.NewHash(digestOf(config))
	if err != nil {
		return nil, nil, err
	}
	manifest, err = json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: ggcrtypes.DockerManifestSchema2, Layers: []v1.Descriptor{},
		Config: v1.Descriptor{MediaType: ggcrtypes.DockerConfigJSON, Size: int64(len(config)), Digest: hash},
	})
	return manifest, config, err
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// after returns what is behind a part of a path.
func after(path, part string) (string, bool) {
	_, rest, found := strings.Cut(path, part)
	return rest, found
}
