// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

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

// facts are what digests say, and a cache of it.
type facts struct {
	// known is by repository and digest, as a string, not by digest alone: it
	// is the registry that says which digest it opened, and a hostile one would
	// name another tenant's.
	known   *cache.LRUExpireCache // -> []Config
	fetches *semaphore.Weighted
	parses  *semaphore.Weighted
}

func newFacts() *facts {
	return &facts{
		known:   cache.NewLRUExpireCache(maxDigests),
		fetches: semaphore.NewWeighted(fetchesAtOnce),
		parses:  semaphore.NewWeighted(parsesAtOnce),
	}
}

// of returns the facts of a digest that the asker was found to have access to.
func (f *facts) of(ctx context.Context, puller *remote.Puller, ref name.Digest) ([]Config, Source, error) {
	key := ref.String()
	if cached, ok := f.known.Get(key); ok {
		return cached.([]Config), Cached, nil
	}
	if err := f.fetches.Acquire(ctx, 1); err != nil {
		return nil, "", err
	}
	defer f.fetches.Release(1)
	configs, err := f.fetch(ctx, puller, ref)
	if err != nil {
		return nil, "", err
	}
	if bytes := argvBytes(configs); bytes > maxArgvBytes {
		return nil, "", &notAnImageError{what: fmt.Sprintf("command lines of %d bytes, more than %d", bytes, maxArgvBytes)}
	}
	f.known.Add(key, configs, factsTTL)
	return configs, Fetched, nil
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

func (f *facts) fetch(ctx context.Context, puller *remote.Puller, ref name.Digest) ([]Config, error) {
	desc, err := puller.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	switch {
	case desc.MediaType.IsIndex():
		return f.fetchIndex(ctx, desc)
	case desc.MediaType.IsImage():
		image, err := desc.Image()
		if err != nil {
			return nil, err
		}
		config, err := f.fetchConfig(ctx, image)
		if err != nil {
			return nil, err
		}
		return []Config{config}, nil
	default:
		return nil, &notAnImageError{what: fmt.Sprintf("a manifest of type %q", desc.MediaType)}
	}
}

func (f *facts) fetchIndex(ctx context.Context, desc *remote.Descriptor) ([]Config, error) {
	index, err := desc.ImageIndex()
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	entries := slices.DeleteFunc(slices.Clone(manifest.Manifests), func(m v1.Descriptor) bool {
		return !m.MediaType.IsImage() || m.Platform != nil && m.Platform.OS != "linux"
	})
	if len(entries) > maxPlatforms {
		return nil, &notAnImageError{what: fmt.Sprintf("an index of %d images, more than %d", len(entries), maxPlatforms)}
	}
	configs := make([]Config, len(entries))
	var group errgroup.Group
	group.SetLimit(platformsAtOnce)
	for i, m := range entries {
		group.Go(func() error {
			image, err := index.Image(m.Digest)
			if err != nil {
				return err
			}
			configs[i], err = f.fetchConfig(ctx, image)
			if m.Platform != nil {
				// What the container runtime matches a node against. It reads
				// the config only where the index is silent.
				configs[i].Platform = platform(*m.Platform)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	configs = slices.DeleteFunc(configs, func(c Config) bool { return !strings.HasPrefix(c.Platform, "linux/") })
	if len(configs) == 0 {
		return nil, &notAnImageError{what: "an index without any image for Linux"}
	}
	return configs, nil
}

func (f *facts) fetchConfig(ctx context.Context, image v1.Image) (Config, error) {
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
	if err := f.parses.Acquire(ctx, 1); err != nil {
		return Config{}, err
	}
	defer f.parses.Release(1)
	return parseConfig(raw)
}

// parseConfig reads what we need of an image's config
// (https://github.com/opencontainers/image-spec/blob/main/config.md).
func parseConfig(raw []byte) (Config, error) {
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
