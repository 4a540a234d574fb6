// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"fmt"
)

// StaticImages holds the command lines of images that no registry serves, because they
// are loaded on the nodes or the cluster has no network. Keys are full references, with
// registry and tag.
type StaticImages map[string]Config

// Add sets the command line of an image. The reference is written as in a container. The
// config's platform is left empty, because the config applies to all platforms.
func (s StaticImages) Add(image string, config Config) error {
	ref, err := parseReference(image)
	if err != nil {
		return fmt.Errorf("%q is no image: %w", image, err)
	}
	if len(config.Entrypoint)+len(config.Cmd) == 0 {
		return fmt.Errorf("image %q has neither entrypoint nor cmd", image)
	}
	s[ref.String()] = config
	return nil
}

// WithStaticImages answers queries for these images, and passes all others to next. The
// reference isn't pinned, because there is no digest.
func WithStaticImages(next Lookuper, images StaticImages) Lookuper {
	return &staticLookuper{next: next, images: images}
}

type staticLookuper struct {
	next   Lookuper
	images StaticImages
}

// Lookup implements Lookuper.
func (k *staticLookuper) Lookup(ctx context.Context, query Query) (*Image, error) {
	if ref, err := parseReference(query.Image); err == nil {
		if config, ok := k.images[ref.String()]; ok {
			return &Image{Pinned: query.Image, Configs: []Config{config}, Source: Static}, nil
		}
	}
	return k.next.Lookup(ctx, query)
}
