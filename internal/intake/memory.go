// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"context"
	"math"
	"net/http"

	"github.com/entrypointer/entrypointer/pkg/tenants"
)

// A tenant is on whose account memory is taken. A namespace counts for each address by
// itself: a caller that names the namespace of another tenant takes none of the memory
// that API servers take for it.
type tenant struct{ address, namespace string }

func holder(r *http.Request, h head) tenant { return tenant{address(r), h.namespace} }

func (t tenant) key() string { return t.address + "/" + t.namespace }

// memory is an amount of bytes, or of something else, that addresses share, and at each
// address its namespaces. An API server has one address, and so has a pod.
type memory struct {
	addresses, namespaces *tenants.Shares
	ofNamespace           int64
}

func newMemory(all, ofAddress, ofNamespace int64) *memory {
	return &memory{
		addresses:   tenants.NewShares(all, ofAddress),
		namespaces:  tenants.NewShares(math.MaxInt64, ofNamespace),
		ofNamespace: ofNamespace,
	}
}

// acquire waits until n is available for the tenant, or its namespace's whole share if
// that is less. The error is the context's.
func (m *memory) acquire(ctx context.Context, t tenant, n int64) (release func(), err error) {
	n = min(n, m.ofNamespace)
	first, err := m.namespaces.Acquire(ctx, t.key(), n)
	if err != nil {
		return nil, err
	}
	second, err := m.addresses.Acquire(ctx, t.address, n)
	if err != nil {
		first()
		return nil, err
	}
	return func() { second(); first() }, nil
}

// tryAcquire is acquire without waiting.
func (m *memory) tryAcquire(t tenant, n int64) (release func(), ok bool) {
	n = min(n, m.ofNamespace)
	first, ok := m.namespaces.TryAcquire(t.key(), n)
	if !ok {
		return nil, false
	}
	second, ok := m.addresses.TryAcquire(t.address, n)
	if !ok {
		first()
		return nil, false
	}
	return func() { second(); first() }, true
}
