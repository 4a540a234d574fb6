// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// AppendCertificates adds PEM-encoded CA certificates to a pool.
func AppendCertificates(pool *x509.CertPool, pem string) error {
	if !pool.AppendCertsFromPEM([]byte(pem)) {
		return errors.New("there is no certificate in it; a PEM block begins with -----BEGIN CERTIFICATE-----")
	}
	return nil
}

// newTransport speaks to registries as the options say.
func newTransport(options Options) (http.RoundTripper, error) {
	transport := remote.DefaultTransport.(*http.Transport).Clone()
	if options.Certificates != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if err := AppendCertificates(pool, options.Certificates); err != nil {
			return nil, err
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	if options.ForbidPrivateAddresses {
		transport.DialContext = publicOnly(options.Mirrors.hosts())
	}
	return transport, nil
}

const (
	dialTimeout = 5 * time.Second
	keepAlive   = 30 * time.Second
)

// publicOnly refuses to connect to addresses that aren't on the internet, but
// for hosts that are exempt. It looks at the address that a name resolved to,
// so neither a name nor a redirect leads around it.
func publicOnly(exempt []string) func(ctx context.Context, network, address string) (net.Conn, error) {
	open := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	guarded := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive, Control: refusePrivate}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, _, err := net.SplitHostPort(address); err == nil && slices.Contains(exempt, host) {
			return open.DialContext(ctx, network, address)
		}
		return guarded.DialContext(ctx, network, address)
	}
}

// sharedAddresses are carriers' own (RFC 6598); some clouds put their services there.
var sharedAddresses = netip.MustParsePrefix("100.64.0.0/10")

func refusePrivate(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := to.Addr().Unmap()
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || sharedAddresses.Contains(ip) {
		return &notAllowedError{what: "private address " + ip.String()}
	}
	return nil
}
