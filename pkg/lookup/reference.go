// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"cmp"
	"fmt"

	distribution "github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/name"
)

// MaxReferenceBytes is the length of the longest image reference that is looked up: it
// has room for the host of a registry (253 bytes) and its port, a repository (255), a tag
// (128) and a digest (135). Neither Kubernetes nor the grammar
// (https://github.com/distribution/reference) bounds the whole.
const MaxReferenceBytes = 1024

// A reference is a parsed image reference.
type reference struct {
	name.Repository

	tag, digest string // if both are set, the digest takes precedence
}

// parseReference parses an image as container runtimes do.
func parseReference(image string) (reference, error) {
	if len(image) > MaxReferenceBytes {
		return reference{}, fmt.Errorf("its length is %d bytes; a reference has at most %d", len(image), MaxReferenceBytes)
	}
	named, err := distribution.ParseNormalizedNamed(image)
	if err != nil {
		return reference{}, err
	}
	registry, err := name.NewRegistry(distribution.Domain(named))
	if err != nil {
		return reference{}, err
	}
	// Repo takes repositories of one letter, as the runtimes do; name.NewRepository refuses them.
	ref := reference{Repository: registry.Repo(distribution.Path(named))}
	if digested, ok := named.(distribution.Digested); ok {
		ref.digest = digested.Digest().String()
	} else if tagged, ok := distribution.TagNameOnly(named).(distribution.Tagged); ok {
		ref.tag = tagged.Tag()
	}
	return ref, nil
}

// CheckPinned returns an error unless image is a reference with a digest.
func CheckPinned(image string) error {
	ref, err := parseReference(image)
	switch {
	case err != nil:
		return fmt.Errorf("image %.1024q is no reference: %w", image, err)
	case ref.digest == "":
		return fmt.Errorf("image %q has no digest, without which its content may change; write %s@sha256:..., with the digest that \"crane digest %s\" prints", image, ref.Name(), image)
	default:
		return nil
	}
}

// identifier returns the digest or tag, by which a registry knows the image within the
// repository.
func (r reference) identifier() string { return cmp.Or(r.digest, r.tag) }

// in returns the reference of the same image in another repository.
func (r reference) in(repository name.Repository) reference {
	r.Repository = repository
	return r
}

// String returns the reference in full: with its registry, and its digest or tag.
func (r reference) String() string {
	if r.digest != "" {
		return r.Name() + "@" + r.digest
	}
	return r.Name() + ":" + r.tag
}
