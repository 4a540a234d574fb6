// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"net/netip"
	"slices"
	"time"
)

// Options configure which registries are asked, and how. The zero value asks every
// registry directly.
type Options struct {
	Allowed AllowList
	Static  StaticImages
	Mirrors Mirrors
	// Certificates are CA certificates in PEM, trusted in addition to the system's.
	Certificates string
	// ForbidPrivateAddresses forbids connections to addresses outside the internet,
	// except to mirrors and to registries that Allowed names.
	ForbidPrivateAddresses bool
	// Services are the addresses of the cluster's services. Connections to them are
	// forbidden, except to mirrors and to registries that Allowed names.
	Services []netip.Prefix
	// AllowLoopback allows connections to this machine, at which a user's own registry may
	// be. A service must not: tenants would reach what listens beside it.
	AllowLoopback bool
}

// trusted returns the registries that the operator names.
func (o Options) trusted() authorities { return slices.Concat(o.Mirrors.hosts(), o.Allowed.hosts()) }

// New returns a Lookuper that answers from the options, from recent answers, or from a
// registry. A lookup takes at most budget.
func New(credentials Credentials, options Options, budget time.Duration) (Lookuper, error) {
	transport, err := newTransport(options)
	if err != nil {
		return nil, err
	}
	registry := NewRegistry(credentials, transport, options)
	return Remember(WithStaticImages(Restrict(registry, options.Allowed), options.Static), budget), nil
}
