// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"net/netip"
	"slices"
	"time"
)

// Options are an operator's say in whom is asked, and how. The zero value asks
// any registry, as it is named.
type Options struct {
	Allowed AllowList
	Static  StaticImages
	Mirrors Mirrors
	// Certificates are CA certificates in PEM, trusted beside the system's.
	Certificates string
	// ForbidPrivateAddresses keeps lookups from connecting to addresses that
	// aren't on the internet, except those of mirrors and of registries that
	// Allowed names.
	ForbidPrivateAddresses bool
	// Services are the addresses of the cluster's services, which aren't connected
	// to, except those of mirrors and of registries that Allowed names.
	Services []netip.Prefix

	loopback bool // for tests
}

// trusted are hosts that the operator names, without ports.
func (o Options) trusted() []string { return slices.Concat(o.Mirrors.hosts(), o.Allowed.hosts()) }

// New returns a Lookuper that answers from what the options say, from what it
// remembers, or from a registry. Lookups take no longer than budget.
func New(credentials Credentials, options Options, budget time.Duration) (Lookuper, error) {
	transport, err := newTransport(options)
	if err != nil {
		return nil, err
	}
	registry := NewRegistry(credentials, transport, options)
	return Remember(Know(Restrict(registry, options.Allowed), options.Static), budget), nil
}
