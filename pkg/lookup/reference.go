// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/name"
)

// parseReference parses an image as the container runtimes do. The second
// parser alone would take registry.example/a/../b, which some servers serve as
// registry.example/b.
func parseReference(image string) (name.Reference, error) {
	if _, err := reference.ParseNormalizedNamed(image); err != nil {
		return nil, err
	}
	return name.ParseReference(image)
}
