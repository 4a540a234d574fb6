// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/entrypointer/entrypointer/pkg/tenants"
)

// All namespaces share the resources of lookups, and one namespace gets at most a quarter
// of each.
const (
	// lookupsAtOnce is the number of concurrent lookups. Each waits for a registry most
	// of the time, with a connection or two.
	lookupsAtOnce = 128
	// answersBytes bounds the answers that are being read and parsed.
	answersBytes = 64 << 20

	fourth = 4
)

// maxAttempts is the number of credentials that are tried at a registry.
const maxAttempts = 32

const (
	// openedBytes bounds the answers that are kept for outages of registries, and
	// openedShare the part of one namespace.
	openedBytes = 16 << 20
	openedShare = 2 << 20
	// openedTTL is the time for which they are kept. During an outage, a withdrawn
	// credential stays unnoticed for that long.
	openedTTL = 12 * time.Hour
)

// Registry asks the registry that an image names, or a mirror of it.
//
// Every lookup opens the manifest with the credentials of the query's pod (a HEAD), even
// if the facts are cached: this resolves a tag anew, and protects the private images of
// tenants from each other. The facts are then read once for each digest.
//
// While a registry doesn't answer, a pod whose namespace and credentials opened a digest
// within hours gets the same answer again. So a service that scales from zero doesn't
// depend on a registry that its nodes don't need either.
type Registry struct {
	credentials Credentials
	mirrors     Mirrors
	gate        *gate
	pings       pings
	facts       *facts
	lookups     *tenants.Shares
	memory      *tenants.Shares
	opened      *tenants.Cache[*Image] // by Query.key(), of references with a digest
}

// NewRegistry returns a Registry that uses transport. The options for certificates and
// addresses concern only the transport.
func NewRegistry(credentials Credentials, transport http.RoundTripper, options Options) *Registry {
	return &Registry{
		credentials: credentials,
		mirrors:     options.Mirrors,
		gate:        &gate{next: transport, allowed: options.Allowed, trusted: options.trusted()},
		facts:       newFacts(),
		lookups:     tenants.NewShares(lookupsAtOnce, lookupsAtOnce/fourth),
		memory:      tenants.NewShares(answersBytes, answersBytes/fourth),
		opened:      tenants.NewCache[*Image](openedBytes, openedShare),
	}
}

// Lookup implements Lookuper.
func (r *Registry) Lookup(ctx context.Context, query Query) (*Image, error) {
	ref, err := parseReference(query.Image)
	if err != nil {
		return nil, &Error{Query: query, Reason: InvalidReference, Err: err}
	}
	if ref.digest == "" {
		return r.askAll(ctx, query, ref)
	}
	key := query.key()
	before, known := r.opened.Get(key)
	if known {
		var cancel context.CancelFunc
		ctx, cancel = halfOf(ctx)
		defer cancel()
	}
	image, err := r.askAll(ctx, query, ref)
	switch {
	case err == nil:
		r.opened.Add(query.Namespace, key, image, argvBytes(image.Configs)+len(image.Pinned), openedTTL)
	case known && err.(*Error).Reason.isOutage(): //nolint:errorlint,forcetypeassert // askAll returns only this type
		again := *before
		again.Source = Opened
		return &again, nil
	}
	return image, err
}

// askAll asks the mirrors, and then the registry. An error is an *Error.
func (r *Registry) askAll(ctx context.Context, query Query, ref reference) (*Image, error) {
	release, err := r.lookups.Acquire(ctx, 1, query.Namespace)
	if err != nil {
		return nil, newError(query, &busyError{cause: err})
	}
	defer release()
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

// askMirror asks a mirror, and leaves at least half of the remaining time for the mirrors
// and the registry after it.
func (r *Registry) askMirror(ctx context.Context, query Query, ref reference) (*Image, error) {
	ctx, cancel := halfOf(ctx)
	defer cancel()
	return r.ask(ctx, query, ref)
}

// halfOf returns a context that ends after half of the remaining time.
func halfOf(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}

// ask tries one credential after the other until the manifest opens.
func (r *Registry) ask(ctx context.Context, query Query, ref reference) (*Image, error) {
	var attempts attempts
	began := time.Now()
	for credential, err := range r.credentials(ctx, query, ref.Repository) {
		if err != nil {
			attempts.problems = append(attempts.problems, err)
			continue
		}
		if len(attempts.refusals) == maxAttempts {
			attempts.problems = append(attempts.problems, errors.New("more credentials match than are tried"))
			break
		}
		image, err := r.open(ctx, query, ref, credential)
		if err != nil && reasonOf(err).mayBeOfAnOldPing() && r.pings.forget(ref.Registry, began) {
			image, err = r.open(ctx, query, ref, credential)
		}
		if err == nil {
			return image, nil
		}
		// Some registries answer "not found" to clients without permission.
		if reason := reasonOf(err); reason != Unauthorized && reason != NotFound {
			return nil, err
		}
		attempts.refusals = append(attempts.refusals, err)
	}
	return nil, &attempts
}

func (r *Registry) open(ctx context.Context, query Query, ref reference, credential authn.Authenticator) (*Image, error) {
	client, err := r.connect(ctx, query.Namespace, ref.Repository, credential)
	if err != nil {
		return nil, err
	}
	digest, err := client.digestOf(ctx, ref)
	if err != nil {
		return nil, err
	}
	configs, source, err := r.facts.of(ctx, client, digest)
	if err != nil {
		return nil, err
	}
	return &Image{Digest: digest, Pinned: pin(query.Image, digest), Configs: configs, Source: source}, nil
}

// pin appends the digest to a reference, unless it has one.
func pin(image, digest string) string {
	if strings.Contains(image, "@") {
		return image
	}
	return image + "@" + digest
}
