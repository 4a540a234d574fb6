// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/util/cache"
)

// Whoever may create a pod chooses the registry that we ask, so what it can
// make us hold is bounded everywhere: an answer ([MaxManifestBytes],
// [MaxConfigBytes]), what is kept of it, and how many are read at a time.
const (
	// maxDigests bounds the cache of facts, maxArgvBytes what an entry weighs,
	// over all of an image's platforms. A real one is a few hundred bytes, and
	// Linux starts no process with a single word of more than 128 KiB.
	maxDigests   = 1024
	maxArgvBytes = 128 << 10
	// factsTTL lets unused entries go. Facts don't expire: a digest says the same for ever.
	factsTTL = 24 * time.Hour
	// maxPlatforms is how many platforms of an index are read. The largest
	// official images have about a dozen.
	maxPlatforms = 32
	// platformsAtOnce is how many of them are read concurrently.
	platformsAtOnce = 4
	// fetchesAtOnce is how many images are read concurrently, parsesAtOnce how
	// many configs are: parsed, hostile JSON is many times its size.
	fetchesAtOnce = 32
	parsesAtOnce  = 2
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
	// facts are kept by repository and digest, as a string, not by digest
	// alone: it is the registry that says which digest it opened, and a hostile
	// one would name another tenant's.
	facts   *cache.LRUExpireCache // -> []Config
	fetches *semaphore.Weighted
	parses  *semaphore.Weighted
}

// NewRegistry returns a Registry that speaks through transport, with bounded answers.
func NewRegistry(keychains Keychains, transport http.RoundTripper) *Registry {
	return &Registry{
		keychains: keychains,
		transport: limitBodies(transport),
		facts:     cache.NewLRUExpireCache(maxDigests),
		fetches:   semaphore.NewWeighted(fetchesAtOnce),
		parses:    semaphore.NewWeighted(parsesAtOnce),
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
		return nil, &Error{Query: query, Reason: reasonOfKeychain(err), Err: err}
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
	refused := reasonOf(err) == Unauthorized || reasonOf(err) == NotFound || statusOf(err) == http.StatusTooManyRequests
	if refused || ctx.Err() != nil {
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
	key := ref.String()
	if cached, ok := r.facts.Get(key); ok {
		return cached.([]Config), nil
	}
	if err := r.fetches.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer r.fetches.Release(1)
	configs, err := r.fetch(ctx, puller, ref)
	if err != nil {
		return nil, err
	}
	if bytes := argvBytes(configs); bytes > maxArgvBytes {
		return nil, &notAnImageError{what: fmt.Sprintf("command lines of %d bytes, more than %d", bytes, maxArgvBytes)}
	}
	r.facts.Add(key, configs, factsTTL)
	return configs, nil
}

func argvBytes(configs []Config) int {
	const header = 16 // of a string
	total := 0
	for _, config := range configs {
		for _, word := range slices.Concat(config.Entrypoint, config.Cmd) {
			total += header + len(word)
		}
	}
	return total
}

func (r *Registry) fetch(ctx context.Context, puller *remote.Puller, ref name.Digest) ([]Config, error) {
	desc, err := puller.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	switch {
	case desc.MediaType.IsIndex():
		return r.fetchIndex(ctx, desc)
	case desc.MediaType.IsImage():
		image, err := desc.Image()
		if err != nil {
			return nil, err
		}
		config, err := r.fetchConfig(ctx, image)
		if err != nil {
			return nil, err
		}
		return []Config{config}, nil
	default:
		return nil, &notAnImageError{what: fmt.Sprintf("a manifest of type %q", desc.MediaType)}
	}
}

func (r *Registry) fetchIndex(ctx context.Context, desc *remote.Descriptor) ([]Config, error) {
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
			configs[i], err = r.fetchConfig(ctx, image)
			// The index, not the config, is what the container runtime matches a node against.
			configs[i].Platform = platform(*m.Platform)
			return err
		})
	}
	return configs, group.Wait()
}

func (r *Registry) fetchConfig(ctx context.Context, image v1.Image) (Config, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return Config{}, err
	}
	if mt := manifest.Config.MediaType; mt != types.OCIConfigJSON && mt != types.DockerConfigJSON {
		return Config{}, &notAnImageError{what: fmt.Sprintf("an artifact with a config of type %q", mt)}
	}
	raw, err := image.RawConfigFile()
	if err != nil {
		return Config{}, err
	}
	if err := r.parses.Acquire(ctx, 1); err != nil {
		return Config{}, err
	}
	defer r.parses.Release(1)
	// Of the image spec's config (https://github.com/opencontainers/image-spec/blob/main/config.md), what we need.
	var file struct {
		v1.Platform

		Config struct{ Entrypoint, Cmd []string } `json:"config"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return Config{}, fmt.Errorf("parsing the image's config: %w", err)
	}
	return Config{Platform: platform(file.Platform), Entrypoint: file.Config.Entrypoint, Cmd: file.Config.Cmd}, nil
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
