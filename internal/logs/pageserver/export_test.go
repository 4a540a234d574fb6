// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pageserver

import (
	"context"
	"net/http"
)

// MostOfUser is how many requests a user can have at once.
const MostOfUser = mostOfUser

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
