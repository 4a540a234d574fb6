// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strings"
)

// authorities are hosts, each with a port, or without one for the default port of
// whichever scheme is used. The same host has other services at other ports.
type authorities []string

// include reports whether a URL leads to one of the authorities.
func (a authorities) include(u *url.URL) bool {
	return slices.ContainsFunc(a, func(named string) bool {
		return authority(&url.URL{Scheme: u.Scheme, Host: named}) == authority(u)
	})
}

// includeAddress is include for a host and port to connect to, whose scheme is unknown.
func (a authorities) includeAddress(hostPort string) bool {
	return a.include(&url.URL{Scheme: "https", Host: hostPort}) || a.include(&url.URL{Scheme: "http", Host: hostPort})
}

// authority returns the host and port of a URL.
func authority(u *url.URL) string {
	return net.JoinHostPort(strings.ToLower(u.Hostname()), cmp.Or(u.Port(), defaultPort(u.Scheme)))
}

// spellings returns the host and port of a URL, and the host alone if the port is the
// default: the name of a registry may have either form.
func spellings(u *url.URL) []string {
	host, port := strings.ToLower(u.Hostname()), cmp.Or(u.Port(), defaultPort(u.Scheme))
	full := net.JoinHostPort(host, port)
	if port != defaultPort(u.Scheme) {
		return []string{full}
	}
	return []string{strings.TrimSuffix(full, ":"+port), full}
}

func defaultPort(scheme string) string {
	switch scheme {
	case "https":
		return "443"
	case "socks5", "socks5h":
		return "1080"
	default:
		return "80"
	}
}
