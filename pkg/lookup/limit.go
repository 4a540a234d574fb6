// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"fmt"
	"io"
	"net/http"
)

// MaxBodyBytes is how much of any one answer of a registry is read. Registries
// themselves refuse manifests of more than 4 MiB, and configs are far smaller.
const MaxBodyBytes = 8 << 20

// limitBodies makes reading more than MaxBodyBytes of an answer an error, so
// that no registry can fill our memory.
func limitBodies(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		resp.Body = &limitedBody{ReadCloser: resp.Body, left: MaxBodyBytes}
		return resp, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

type limitedBody struct {
	io.ReadCloser
	left int
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("reading the registry's answer: it is longer than %d bytes", MaxBodyBytes)
	}
	if len(p) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= n
	return n, err
}
