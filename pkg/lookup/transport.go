// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// AppendCertificates adds PEM-encoded CA certificates to a pool.
func AppendCertificates(pool *x509.CertPool, pem string) error {
	if !pool.AppendCertsFromPEM([]byte(pem)) {
		return errors.New("the text contains no certificate; a PEM block begins with -----BEGIN CERTIFICATE-----")
	}
	return nil
}

// idlePerHost is the number of idle connections for each registry: most lookups of a
// cluster ask one or two registries.
const idlePerHost = 32

// newTransport returns a transport to registries according to the options.
func newTransport(options Options) (http.RoundTripper, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
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
	transport.DialContext = options.addresses().dial
	transport.MaxIdleConnsPerHost = idlePerHost
	// HTTP/1 only: with HTTP/2, a peer can fill 4 MiB of memory for each response before
	// the limits apply.
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP1(true)
	transport.MaxResponseHeaderBytes = maxHeaderBytes
	transport.DisableCompression = true // so that Content-Length is the length of the body
	return transport, nil
}

func (o Options) addresses() addresses {
	return addresses{
		trusted: slices.Concat(o.trusted(), proxies()), cluster: o.Services,
		publicOnly: o.ForbidPrivateAddresses, loopback: o.AllowLoopback,
	}
}

// proxies returns the hosts and ports of the environment's proxies. The operator chooses them, and
// they decide to which addresses they connect.
func proxies() (hosts authorities) {
	environment := httpproxy.FromEnvironment()
	for _, proxy := range []string{environment.HTTPProxy, environment.HTTPSProxy} {
		if !strings.Contains(proxy, "://") {
			proxy = "http://" + proxy
		}
		if u, err := url.Parse(proxy); err == nil && u.Host != "" {
			hosts = append(hosts, authority(u))
		}
	}
	return hosts
}
