// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/test/framework"
)

// A misbehaviour answers a request in the place of the registry.
type misbehaviour func(inner http.Handler, w http.ResponseWriter, r *http.Request)

// ownRegistry is an image registry in this process, for the images that the injector looks
// up: no node pulls them.
type ownRegistry struct {
	tag, digest string // of its one image
	server      *http.Server
	behaviour   atomic.Pointer[misbehaviour]
}

// startRegistry listens where pods reach this machine.
func startRegistry(ctx context.Context, cluster *framework.Cluster) (*ownRegistry, error) {
	address, err := cluster.OwnAddress(ctx)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(address.String(), "0"))
	if err != nil {
		return nil, fmt.Errorf("listening for lookups of images: %w", err)
	}
	r := &ownRegistry{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	r.server = &http.Server{ReadHeaderTimeout: requestLimit, Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if instead := r.behaviour.Load(); instead != nil {
			(*instead)(inner, w, request)
			return
		}
		inner.ServeHTTP(w, request)
	})}
	go func() { _ = r.server.Serve(listener) }()
	return r, r.push(listener.Addr().String() + "/chaos")
}

// push fills the registry with an image.
func (r *ownRegistry) push(repository string) error {
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: "amd64", Config: v1.Config{Entrypoint: []string{"/bin/true"}},
	})
	if err != nil {
		return err
	}
	r.tag = repository + ":latest"
	reference, err := name.ParseReference(r.tag)
	if err != nil {
		return err
	}
	if err := remote.Write(reference, image); err != nil {
		return fmt.Errorf("filling the registry: %w", err)
	}
	digest, err := image.Digest()
	r.digest = repository + "@" + digest.String()
	return err
}

// behaveAs has the registry misbehave from now on, or serve again if there is no misbehaviour.
func (r *ownRegistry) behaveAs(as misbehaviour) {
	if as == nil {
		r.behaviour.Store(nil)
		return
	}
	r.behaviour.Store(&as)
}

// Close ends the registry.
func (r *ownRegistry) Close() error { return r.server.Close() }

// openings is how many pods have their image opened at the same time.
const openings = 16

// openEverywhere has all replicas of the injector open the image in the namespaces that opted in, as in
// a cluster with much to do. API servers send a request that comes while all connections are used over
// another one, to any replica.
func openEverywhere(ctx context.Context, e *environment) (healer, error) {
	e.registry.behaveAs(isSlow) // so that all are used
	defer e.registry.behaveAs(nil)
	l := &load{environment: e}
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range []place{asking, all} {
		for n := range openings {
			a := &attempt{kind: aDigest, place: p, name: fmt.Sprint("opens-", n)}
			group.Go(func() error {
				if l.create(ctx, a, nil); a.refusal != "" {
					return fmt.Errorf("having the injectors open an image: %s", a.refusal)
				}
				return nil
			})
		}
	}
	return nil, group.Wait()
}

// behave has the registry misbehave until it heals.
func behave(as misbehaviour) inject {
	return func(_ context.Context, e *environment) (healer, error) {
		e.registry.behaveAs(as)
		return func(context.Context) error {
			e.registry.behaveAs(nil)
			return nil
		}, nil
	}
}

// doesNotAnswer waits until its client has lost patience.
func doesNotAnswer(_ http.Handler, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// slow is how long a slow registry takes to answer. A replica that doesn't know the image asks
// it four times (to learn how clients authenticate, for the digest of the tag, for the manifest,
// and for the config), and has three seconds.
const slow = 500 * time.Millisecond

func isSlow(inner http.Handler, w http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-time.After(slow):
		inner.ServeHTTP(w, r)
	}
}

// lies says that an image has another digest than it has, and answers with a page where
// a manifest is asked for.
func lies(inner http.Handler, w http.ResponseWriter, r *http.Request) {
	const anyDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	truth := httptest.NewRecorder()
	inner.ServeHTTP(truth, r)
	maps.Copy(w.Header(), truth.Header())
	w.Header().Set("Docker-Content-Digest", anyDigest)
	content := truth.Body.Bytes()
	if r.Method == http.MethodGet {
		content = []byte("<html>Please sign in</html>")
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	}
	w.WriteHeader(truth.Code)
	_, _ = w.Write(content)
}
