// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// addresses decides which addresses may be connected to. It looks at what a
// name resolved to, so neither a name, nor a redirect, nor a registry's token
// server leads around it.
type addresses struct {
	// trusted are hosts that the operator names, without ports. Only the
	// addresses that are never a registry's stay closed to them.
	trusted []string
	// cluster are the addresses of the cluster's services.
	cluster []netip.Prefix
	// publicOnly leaves what is on the internet.
	publicOnly bool
	// loopback is for tests, whose registries have no other address.
	loopback bool
}

const (
	dialTimeout = 5 * time.Second
	keepAlive   = 30 * time.Second
)

// dial is for an http.Transport.
func (a addresses) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	trusted := slices.Contains(a.trusted, host)
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return a.check(to.Addr(), trusted)
	}}
	return dialer.DialContext(ctx, network, address)
}

// check returns an error for an address that may not be connected to.
func (a addresses) check(ip netip.Addr, trusted bool) error {
	ip = embedded(ip.Unmap().WithZone(""))
	within := func(prefix netip.Prefix) bool { return prefix.Contains(ip) }
	switch {
	case a.loopback && ip.IsLoopback():
		return nil
	case !ip.IsGlobalUnicast(), slices.ContainsFunc(neverRegistries, within):
		return &notAllowedError{what: "address " + ip.String()}
	case trusted:
		return nil
	case slices.ContainsFunc(a.cluster, within):
		return &notAllowedError{what: "address " + ip.String() + " of a service of this cluster, unless the operator names its registry,"}
	case a.publicOnly && (ip.IsPrivate() || sharedAddresses.Contains(ip)):
		return &notAllowedError{what: "private address " + ip.String()}
	}
	return nil
}

// sharedAddresses are carriers' own (RFC 6598); some clouds put their services there.
var sharedAddresses = netip.MustParsePrefix("100.64.0.0/10")

// neverRegistries are addresses at which no registry is, beside loopback,
// link-local and multicast ones: those of special use (the registries of IANA
// that RFC 6890 describes), and of the clouds' metadata services.
var neverRegistries = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),          // this network
	netip.MustParsePrefix("192.0.0.0/24"),       // protocol assignments; Oracle's metadata
	netip.MustParsePrefix("240.0.0.0/4"),        // reserved
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba's metadata
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure's
	netip.MustParsePrefix("fd00:ec2::/64"),      // Amazon's
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google's
	netip.MustParsePrefix("::/96"),              // deprecated way to write IPv4
	netip.MustParsePrefix("64:ff9b:1::/48"),     // translated, to wherever the operator of the translator says
	netip.MustParsePrefix("100::/64"),           // discarded
}

var (
	translated = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixToFour  = netip.MustParsePrefix("2002::/16")    // RFC 3056
)

// embedded returns the IPv4 address that an IPv6 address leads to by way of a
// translator, or the address itself. IPv6-only clusters reach all of IPv4 in
// this way, public registries and loopback alike.
func embedded(ip netip.Addr) netip.Addr {
	bytes := ip.As16()
	switch {
	case translated.Contains(ip):
		return netip.AddrFrom4([4]byte(bytes[12:16]))
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(bytes[2:6]))
	}
	return ip
}
