// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Registry asks the registry that an image names, or a mirror of it.
//
// Every lookup opens the manifest with the asker's own credentials (a HEAD),
// whether or not the facts are cached: this resolves a tag afresh, and it is
// what keeps one tenant's private images from another. Facts are then read
// once a digest.
type Registry struct {
	credentials Credentials
	transport   http.RoundTripper
	mirrors     Mirrors
	facts       *facts
}

// NewRegistry returns a Registry that speaks through transport, with bounded answers.
func NewRegistry(credentials Credentials, transport http.RoundTripper, mirrors Mirrors) *Registry {
	return &Registry{
		credentials: credentials,
		transport:   limitBodies(heedRetryAfter(transport)),
		mirrors:     mirrors,
		facts:       newFacts(),
	}
}

// Lookup implements Lookuper.
func (r *Registry) Lookup(ctx context.Context, query Query) (*Image, error) {
	ref, err := parseReference(query.Image)
	if err != nil {
		return nil, &Error{Query: query, Reason: InvalidReference, Err: err}
	}
	var failures []error
	for _, mirrored := range r.mirrors.of(ref) {
		image, err := r.askMirror(ctx, query, mirrored)
		if err == nil {
			return image, nil
		}
		failures = append(failures, err)
	}
	image, failure := r.ask(ctx, query, ref)
	if failure != nil {
		return nil, newError(query, failure, failures...)
	}
	return image, nil
}

// askMirror leaves at least half of the time that is left to those who come next.
func (r *Registry) askMirror(ctx context.Context, query Query, ref name.Reference) (*Image, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	return r.ask(ctx, query, ref)
}

// ask tries one credential after the other until the manifest opens.
func (r *Registry) ask(ctx context.Context, query Query, ref name.Reference) (*Image, error) {
	var attempts attempts
	for credential, err := range r.credentials(ctx, query, ref.Context()) {
		if err != nil {
			attempts.problems = append(attempts.problems, err)
			continue
		}
		image, err := r.open(ctx, query, ref, credential)
		if err == nil {
			return image, nil
		}
		// Some registries say "not found" to those who may not know.
		if reason := reasonOf(err); reason != Unauthorized && reason != NotFound {
			return nil, err
		}
		attempts.refusals = append(attempts.refusals, err)
	}
	return nil, &attempts
}

func (r *Registry) open(ctx context.Context, query Query, ref name.Reference, credential authn.Authenticator) (*Image, error) {
	puller, err := remote.NewPuller(
		remote.WithAuth(credential),
		remote.WithTransport(r.transport),
		remote.WithRetryBackoff(remote.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 3}),
		remote.WithUserAgent("entrypointer"),
	)
	if err != nil {
		return nil, err
	}
	digest, err := resolve(ctx, puller, ref)
	if err != nil {
		return nil, err
	}
	configs, source, err := r.facts.of(ctx, puller, ref.Context().Digest(digest))
	if err != nil {
		return nil, err
	}
	return &Image{Digest: digest, Pinned: pin(query.Image, digest), Configs: configs, Source: source}, nil
}

// resolve opens the manifest and returns its digest. Some registries don't
// answer HEAD, or leave the digest out: those are asked for the whole.
func resolve(ctx context.Context, puller *remote.Puller, ref name.Reference) (string, error) {
	head, err := puller.Head(ctx, ref)
	if err == nil {
		return head.Digest.String(), nil
	}
	if reasonOf(err) != RegistryError {
		return "", err
	}
	got, err := puller.Get(ctx, ref)
	if err != nil {
		return "", err
	}
	return got.Digest.String(), nil
}

// pin appends the digest to a reference, unless it has one.
func pin(image, digest string) string {
	if strings.Contains(image, "@") {
		return image
	}
	return image + "@" + digest
}
