// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"fmt"
)

// StaticImages says what images carry that no registry serves, because they
// are loaded on the nodes or the cluster is cut off. Keys are references in
// full, with registry and tag.
type StaticImages map[string]Config

// Add says what an image carries. The reference is as in a container; the
// config's platform is left empty: it holds for all.
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

// Know answers from what is said of images, and asks next for all others.
// The reference isn't pinned: there is no digest to pin it to.
func Know(next Lookuper, images StaticImages) Lookuper { return &knowing{next: next, images: images} }

type knowing struct {
	next   Lookuper
	images StaticImages
}

// Lookup implements Lookuper.
func (k *knowing) Lookup(ctx context.Context, query Query) (*Image, error) {
	if ref, err := parseReference(query.Image); err == nil {
		if config, ok := k.images[ref.String()]; ok {
			return &Image{Pinned: query.Image, Configs: []Config{config}, Source: Static}, nil
		}
	}
	return k.next.Lookup(ctx, query)
}
