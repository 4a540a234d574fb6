// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// maxDigests bounds the cache of facts. An entry is a few hundred bytes.
	maxDigests = 4096
	// factsTTL lets unused entries go. Facts don't expire: a digest says the same for ever.
	factsTTL = 24 * time.Hour
	// maxPlatforms is how many platforms of an index are read. The largest
	// official images have about a dozen.
	maxPlatforms = 32
	// platformsAtOnce is how many of them are read concurrently.
	platformsAtOnce = 4
)

// Keychains finds the credentials of the pod that a query is asked for.
type Keychains func(ctx context.Context, query Query) (authn.Keychain, error)

// Registry asks the registry that an image names.
//
// Every lookup opens the manifest with the asker's own credentials (a HEAD),
// whether or not the facts are cached: this resolves a tag afresh, and it is
// what keeps one tenant's private images from another. Facts are then read
// once a digest.
type Registry struct {
	keychains Keychains
	transport http.RoundTripper
	facts     *cache.LRUExpireCache // digest (string) -> []Config
}

// NewRegistry returns a Registry that speaks through transport, with answers
// cut off at [MaxBodyBytes].
func NewRegistry(keychains Keychains, transport http.RoundTripper) *Registry {
	return &Registry{
		keychains: keychains,
		transport: limitBodies(transport),
		facts:     cache.NewLRUExpireCache(maxDigests),
	}
}

// Lookup implements Lookuper.
func (r *Registry) Lookup(ctx context.Context, query Query) (*Image, error) {
	ref, err := name.ParseReference(query.Image)
	if err != nil {
		return nil, &Error{Query: query, Reason: InvalidReference, Err: err}
	}
	keychain, err := r.keychains(ctx, query)
	if err != nil {
		if reasonOf(err) == Timeout {
			return nil, newError(query, err)
		}
		return nil, &Error{Query: query, Reason: CredentialsError, Err: err}
	}
	puller, err := remote.NewPuller(
		remote.WithAuthFromKeychain(keychain),
		remote.WithTransport(r.transport),
		remote.WithRetryBackoff(remote.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 3}),
		remote.WithUserAgent("entrypointer"),
	)
	if err != nil {
		return nil, newError(query, err)
	}
	digest, err := resolve(ctx, puller, ref)
	if err != nil {
		return nil, newError(query, err)
	}
	configs, err := r.configs(ctx, puller, ref.Context().Digest(digest))
	if err != nil {
		return nil, newError(query, err)
	}
	return &Image{Digest: digest, Pinned: pin(query.Image, digest), Configs: configs}, nil
}

// resolve opens the manifest and returns its digest. Some registries don't
// answer HEAD, or leave the digest out: those are asked for the whole.
func resolve(ctx context.Context, puller *remote.Puller, ref name.Reference) (string, error) {
	head, err := puller.Head(ctx, ref)
	if err == nil {
		return head.Digest.String(), nil
	}
	if ctx.Err() != nil {
		return "", err
	}
	got, err := puller.Get(ctx, ref)
	if err != nil {
		return "", err
	}
	return got.Digest.String(), nil
}

// configs returns the facts of a digest that the asker was found to have access to.
func (r *Registry) configs(ctx context.Context, puller *remote.Puller, ref name.Digest) ([]Config, error) {
	if cached, ok := r.facts.Get(ref.DigestStr()); ok {
		return cached.([]Config), nil
	}
	configs, err := fetch(ctx, puller, ref)
	if err != nil {
		return nil, err
	}
	r.facts.Add(ref.DigestStr(), configs, factsTTL)
	return configs, nil
}

func fetch(ctx context.Context, puller *remote.Puller, ref name.Digest) ([]Config, error) {
	desc, err := puller.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	switch {
	case desc.MediaType.IsIndex():
		return fetchIndex(desc)
	case desc.MediaType.IsImage():
		image, err := desc.Image()
		if err != nil {
			return nil, err
		}
		config, err := fetchConfig(image)
		if err != nil {
			return nil, err
		}
		return []Config{config}, nil
	default:
		return nil, &notAnImageError{what: fmt.Sprintf("a manifest of type %q", desc.MediaType)}
	}
}

func fetchIndex(desc *remote.Descriptor) ([]Config, error) {
	index, err := desc.ImageIndex()
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	runnable := make([]v1.Descriptor, 0, len(manifest.Manifests))
	for _, m := range manifest.Manifests {
		if m.MediaType.IsImage() && m.Platform != nil && m.Platform.OS == "linux" {
			runnable = append(runnable, m)
		}
	}
	switch {
	case len(runnable) == 0:
		return nil, &notAnImageError{what: "an index without any image for Linux"}
	case len(runnable) > maxPlatforms:
		return nil, &notAnImageError{what: fmt.Sprintf("an index of %d images, more than %d", len(runnable), maxPlatforms)}
	}
	configs := make([]Config, len(runnable))
	var group errgroup.Group
	group.SetLimit(platformsAtOnce)
	for i, m := range runnable {
		group.Go(func() error {
			image, err := index.Image(m.Digest)
			if err != nil {
				return err
			}
			configs[i], err = fetchConfig(image)
			// The index, not the config, is what the container runtime matches a node against.
			configs[i].Platform = platform(*m.Platform)
			return err
		})
	}
	return configs, group.Wait()
}

func fetchConfig(image v1.Image) (Config, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return Config{}, err
	}
	if mt := manifest.Config.MediaType; mt != types.OCIConfigJSON && mt != types.DockerConfigJSON {
		return Config{}, &notAnImageError{what: fmt.Sprintf("an artifact with a config of type %q", mt)}
	}
	file, err := image.ConfigFile()
	if err != nil {
		return Config{}, err
	}
	return Config{
		Platform:   platform(v1.Platform{OS: file.OS, Architecture: file.Architecture, Variant: file.Variant}),
		Entrypoint: file.Config.Entrypoint,
		Cmd:        file.Config.Cmd,
	}, nil
}

func platform(p v1.Platform) string {
	parts := []string{p.OS, p.Architecture}
	if p.Variant != "" {
		parts = append(parts, p.Variant)
	}
	return strings.Join(parts, "/")
}

// pin appends the digest to a reference, unless it has one.
func pin(image, digest string) string {
	if strings.Contains(image, "@") {
		return image
	}
	return image + "@" + digest
}
