// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"fmt"
	"slices"

	"github.com/google/go-containerregistry/pkg/v1/types"
)

// A part is one of the documents that lead to the facts about an image.
type part struct {
	// name tells parts apart that have the same kind, because a document may be read as both.
	name  string
	kind  string // manifests or blobs
	parse func(*answer) (content, error)
}

var (
	manifestOfReference = part{"reference", manifests, parseReferenced}
	manifestOfPlatform  = part{"platform", manifests, parsePlatform}
	configOfImage       = part{"config", blobs, parseImage}
)

// content is what lookups use of a document.
type content struct {
	isIndex bool
	entries []descriptor // of an index: the images that may run on Linux
	config  descriptor   // of a manifest
	image   Config       // of a config
}

// leadsOn reports whether the content leads to facts. A registry that sends the wrong media type
// may have corrected it by the next lookup: the digest doesn't cover that.
func (c content) leadsOn() bool {
	return len(c.entries) > 0 || isConfig(c.config) || c.image.Platform != ""
}

// bytes returns the memory of the content, roughly.
func (c content) bytes() int {
	total := argvBytes([]Config{c.image})
	for _, d := range append(slices.Clone(c.entries), c.config) {
		total += 4*stringHeader + len(d.MediaType) + len(d.Digest)
		if p := d.Platform; p != nil {
			total += 3*stringHeader + len(p.OS) + len(p.Architecture) + len(p.Variant)
		}
	}
	return total
}

// parseReferenced parses the index or manifest to which a reference leads.
func parseReferenced(a *answer) (content, error) {
	switch mediaType := types.MediaType(a.mediaType); {
	case mediaType.IsIndex():
		entries, err := parseIndex(a.body)
		if err != nil {
			return content{}, err
		}
		entries = slices.DeleteFunc(entries, func(d descriptor) bool {
			return !types.MediaType(d.MediaType).IsImage() || d.Platform != nil && d.Platform.OS != linux
		})
		if len(entries) > maxPlatforms {
			return content{}, &notAnImageError{what: fmt.Sprintf("an index of %d images, more than %d", len(entries), maxPlatforms)}
		}
		return content{isIndex: true, entries: slices.Clone(entries)}, nil
	case mediaType.IsImage():
		return parsePlatform(a)
	default:
		return content{}, &notAnImageError{what: fmt.Sprintf("a manifest of type %q", shorten(a.mediaType))}
	}
}

// parsePlatform parses the manifest of an image.
func parsePlatform(a *answer) (content, error) {
	config, err := parseManifest(a.body)
	return content{config: config}, err
}

// parseImage parses the config of an image.
func parseImage(a *answer) (content, error) {
	image, err := parseConfig(a.body)
	if err != nil {
		return content{}, err
	}
	return content{image: image}, checkArgvBytes(int64(argvBytes([]Config{image})))
}
