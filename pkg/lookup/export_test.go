// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import "net/netip"

// CheckAddress tells what becomes of an attempt to connect to an address.
func (o Options) CheckAddress(ip netip.Addr, named bool) error {
	return o.addresses().check(ip, named)
}

// WithLoopback lets the registries of tests be reached, which are at loopback
// addresses.
func (o Options) WithLoopback() Options {
	o.AllowLoopback = true
	return o
}

// Trusts tells whether the operator names what is at a host and port.
func (o Options) Trusts(hostPort string) bool { return o.addresses().trusted.includeAddress(hostPort) }
