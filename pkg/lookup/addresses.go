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

// addresses decides to which addresses lookups may connect. The decision uses the
// resolved address, so that no name, no redirect and no token server of a registry
// circumvents it.
type addresses struct {
	// trusted are the registries that the operator names. They may have any address,
	// except addresses at which no registry can be.
	trusted authorities
	// cluster are the addresses of the cluster's services.
	cluster []netip.Prefix
	// publicOnly allows only addresses of the internet.
	publicOnly bool
	// loopback allows loopback addresses.
	loopback bool
}

const (
	dialTimeout = 5 * time.Second
	keepAlive   = 30 * time.Second
)

// dial is the DialContext of an http.Transport.
func (a addresses) dial(ctx context.Context, network, address string) (net.Conn, error) {
	trusted := a.trusted.includeAddress(address)
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return a.check(to.Addr(), trusted)
	}}
	return dialer.DialContext(ctx, network, address)
}

// check returns an error for an address to which lookups may not connect.
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

// sharedAddresses are shared by carriers (RFC 6598); some clouds have services there.
var sharedAddresses = netip.MustParsePrefix("100.64.0.0/10")

// neverRegistries are addresses at which no registry is, in addition to loopback,
// link-local and multicast addresses: those of special use (the registries of IANA that
// RFC 6890 describes), and those of the clouds' metadata services.
var neverRegistries = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),          // this network
	netip.MustParsePrefix("192.0.0.0/24"),       // protocol assignments; Oracle's metadata
	netip.MustParsePrefix("240.0.0.0/4"),        // reserved
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba's metadata
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure's
	netip.MustParsePrefix("fd00:ec2::/64"),      // Amazon's
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google's
	netip.MustParsePrefix("::/96"),              // deprecated way to write IPv4
	netip.MustParsePrefix("64:ff9b:1::/48"),     // translated to an address that the translator's operator chooses
	netip.MustParsePrefix("100::/64"),           // discarded
}

var (
	translated = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixToFour  = netip.MustParsePrefix("2002::/16")    // RFC 3056
)

// embedded returns the IPv4 address that an IPv6 address reaches through a translator, or
// the address itself. IPv6-only clusters reach all of IPv4 in this way, public registries
// and loopback alike.
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
