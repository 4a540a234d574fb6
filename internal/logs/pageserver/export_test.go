// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pageserver

import (
	"context"
	"net/http"
	"net/url"
)

// MostOfUser is how many requests a user can have at once.
const MostOfUser = mostOfUser

// MostMadeOfUser is how many requests for pages a user can have at once.
const MostMadeOfUser = mostMadeOfUser

// Enter takes the places of a request for good, and reports whether there were any.
func (s *Server) Enter(ctx context.Context, owner, asked string) bool {
	parsed, err := url.Parse(asked)
	if err != nil {
		return false
	}
	_, entered := s.enter(ctx, owner, parsed)
	return entered
}

// NewGate returns a gate for tests.
func NewGate(most, ofUser int) *gate { return newGate(most, ofUser) }

// Enter is enter.
func (g *gate) Enter(ctx context.Context, user string) bool { return g.enter(ctx, user) }

// Leave is leave.
func (g *gate) Leave(user string) { g.leave(user) }

// ServeTimed is serveTimed.
func ServeTimed(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	serveTimed(w, r, handler)
}

// WithoutSecrets is withoutSecrets.
func WithoutSecrets(ctx context.Context, r *http.Request) *http.Request {
	return withoutSecrets(ctx, r)
}
