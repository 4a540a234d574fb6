// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

const (
	// MaxManifestBytes is how much of a manifest or index is read; registries
	// themselves refuse larger ones.
	MaxManifestBytes = 4 << 20
	// MaxConfigBytes is how much of anything else is read, an image's config
	// above all. Real ones are tens of kilobytes.
	MaxConfigBytes = 1 << 20
)

// limitBodies makes reading more than that an error, so that no registry can
// fill our memory.
func limitBodies(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		limit := MaxConfigBytes
		if strings.Contains(req.URL.Path, "/manifests/") {
			limit = MaxManifestBytes
		}
		resp.Body = &limitedBody{ReadCloser: resp.Body, limit: limit, left: limit}
		return resp, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

type limitedBody struct {
	io.ReadCloser

	limit, left int
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("reading the registry's answer: it is longer than %d bytes", b.limit)
	}
	if len(p) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= n
	return n, err
}
