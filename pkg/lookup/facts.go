// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/entrypointer/entrypointer/pkg/tenants"
)

const (
	// factsBytes bounds the cache of facts, and factsShare the part of one namespace. The
	// facts of a real image are a few hundred bytes.
	factsBytes = 32 << 20
	factsShare = 4 << 20
	// factsTTL bounds the time for which unused facts stay. Facts don't become invalid:
	// the content of a digest never changes.
	factsTTL = 24 * time.Hour
	// partsBytes bounds what is kept of single manifests and configs, and partsShare the part
	// of one namespace. A lookup whose time runs out is continued by the next one within
	// partsTTL: an image of several platforms takes ten requests and more, one after another.
	partsBytes = 4 << 20
	partsShare = 1 << 20
	partsTTL   = time.Minute
	// maxArgvBytes bounds the command lines of an image, over all of its platforms. Linux
	// starts no process with a single word of more than 128 KiB.
	maxArgvBytes = 128 << 10
	// maxPlatforms is the number of platforms of an index that are read. The largest
	// official images have about a dozen.
	maxPlatforms = 32
	// platformsAtOnce is the number of platforms that are read concurrently.
	platformsAtOnce = 4
	// parsesAtOnce is the number of answers that are parsed concurrently: hostile JSON
	// takes a processor for a while.
	parsesAtOnce = 2
)

// facts reads and caches the content of digests.
//
// Caches are keyed by repository and digest. The digest alone isn't enough: the registry
// reports which digest it opened, and a hostile registry would report the digest of another
// tenant's image.
type facts struct {
	known  *tenants.Cache[[]Config]
	parts  *tenants.Cache[content]
	parses *semaphore.Weighted
}

func newFacts() *facts {
	return &facts{
		known:  tenants.NewCache[[]Config](factsBytes, factsShare),
		parts:  tenants.NewCache[content](partsBytes, partsShare),
		parses: semaphore.NewWeighted(parsesAtOnce),
	}
}

// of returns the facts of a digest to which the query's pod has access.
func (f *facts) of(ctx context.Context, from *client, opened string) ([]Config, Source, error) {
	key := from.keyOf(opened)
	if known, ok := f.known.Get(key); ok {
		return known, Cached, nil
	}
	configs, err := f.fetch(ctx, from, opened)
	if err != nil {
		return nil, "", err
	}
	f.known.Add(from.namespace, key, configs, argvBytes(configs), factsTTL)
	return configs, Fetched, nil
}

// stringHeader is the size of a string without its bytes.
const stringHeader = 16

// argvBytes returns the memory for command lines and the data that is kept with them.
func argvBytes(configs []Config) int {
	total := 0
	for _, config := range configs {
		total += len(config.Platform) + len(config.StopSignal)
		for _, word := range slices.Concat(config.Entrypoint, config.Cmd) {
			total += stringHeader + len(word)
		}
	}
	return total
}

func checkArgvBytes(bytes int64) error {
	if bytes > maxArgvBytes {
		return &notAnImageError{what: fmt.Sprintf("command lines of %d bytes, more than %d", bytes, maxArgvBytes)}
	}
	return nil
}

// fetch reads the index or manifest of a digest.
func (f *facts) fetch(ctx context.Context, from *client, opened string) ([]Config, error) {
	manifest, err := f.read(ctx, from, manifestOfReference, opened)
	switch {
	case err != nil:
		return nil, err
	case manifest.isIndex:
		return f.fetchPlatforms(ctx, from, manifest.entries)
	}
	found, err := f.fetchConfig(ctx, from, manifest.config)
	if err != nil {
		return nil, err
	}
	return []Config{found}, nil
}

// read gets the content of a digest, and has it parsed within bounds, unless a lookup has
// done so within partsTTL.
func (f *facts) read(ctx context.Context, from *client, as part, wanted string) (content, error) {
	if _, err := digest.Parse(wanted); err != nil {
		return content{}, &protocolError{what: "the registry sent an invalid digest"}
	}
	key := as.name + " " + from.keyOf(wanted)
	if before, ok := f.parts.Get(key); ok {
		return before, nil
	}
	parsed, err := f.readAndParse(ctx, from, as, wanted)
	if err == nil && parsed.leadsOn() {
		f.parts.Add(from.namespace, key, parsed, parsed.bytes(), partsTTL)
	}
	return parsed, err
}

func (f *facts) readAndParse(ctx context.Context, from *client, as part, wanted string) (content, error) {
	answer, err := from.get(ctx, as.kind, wanted)
	if err != nil {
		return content{}, err
	}
	defer answer.release()
	if err := f.parses.Acquire(ctx, 1); err != nil {
		return content{}, &busyError{cause: err}
	}
	defer f.parses.Release(1)
	if err := answer.verify(wanted); err != nil {
		return content{}, err
	}
	return as.parse(answer)
}

// fetchPlatforms reads the images of an index.
func (f *facts) fetchPlatforms(ctx context.Context, from *client, entries []descriptor) ([]Config, error) {
	configs := make([]Config, len(entries))
	var bytes atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(platformsAtOnce)
	for i, entry := range entries {
		group.Go(func() (err error) {
			if configs[i], err = f.fetchPlatform(ctx, from, entry); err != nil {
				return err
			}
			return checkArgvBytes(bytes.Add(int64(argvBytes(configs[i : i+1]))))
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	configs = slices.DeleteFunc(configs, func(c Config) bool { return !strings.HasPrefix(c.Platform, linux+"/") })
	if len(configs) == 0 {
		return nil, &notAnImageError{what: "an index without any image for Linux"}
	}
	return configs, nil
}

const linux = "linux"

func (f *facts) fetchPlatform(ctx context.Context, from *client, entry descriptor) (Config, error) {
	manifest, err := f.read(ctx, from, manifestOfPlatform, entry.Digest)
	if err != nil {
		return Config{}, err
	}
	found, err := f.fetchConfig(ctx, from, manifest.config)
	if entry.Platform != nil {
		// The container runtime compares the index's platform with the node's. It reads
		// the config only if the index has no platform.
		found.Platform = entry.Platform.String()
	}
	return found, err
}

// isConfig reports whether a descriptor is that of an image's config.
func isConfig(of descriptor) bool {
	mediaType := types.MediaType(of.MediaType)
	return mediaType == types.OCIConfigJSON || mediaType == types.DockerConfigJSON
}

func (f *facts) fetchConfig(ctx context.Context, from *client, config descriptor) (Config, error) {
	if !isConfig(config) {
		return Config{}, &notAnImageError{what: fmt.Sprintf("an artifact with a config of type %q", shorten(config.MediaType))}
	}
	found, err := f.read(ctx, from, configOfImage, config.Digest)
	return found.image, err
}
