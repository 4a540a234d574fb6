// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"context"
	"iter"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/entrypointer/entrypointer/pkg/lookup"
)

// ample is the budget of lookups that must not end by time: on a busy machine
// a TLS handshake was seen to take three seconds.
const ample = time.Minute

// credentials yields the same credentials for every query.
func credentials(some ...authn.Authenticator) iter.Seq2[authn.Authenticator, error] {
	return func(yield func(authn.Authenticator, error) bool) {
		for _, credential := range some {
			if !yield(credential, nil) {
				return
			}
		}
	}
}

// anonymous yields no credentials for every query.
func anonymous(context.Context, lookup.Query, authn.Resource) iter.Seq2[authn.Authenticator, error] {
	return credentials(authn.Anonymous)
}

func newLookup(credentials lookup.Credentials) *lookup.Registry {
	return lookup.NewRegistry(credentials, http.DefaultTransport, lookup.Options{})
}

// withBudget is for lookups that end by time.
func withBudget(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), 2*time.Second)
}
