// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// TLS is a client's configuration, which trusts a chain that ends at the pinned CA,
// and no other.
func (e Endpoint) TLS() (*tls.Config, error) {
	u, err := url.Parse(e.Address)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the log service: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: u.Hostname(),
		// The CA is known by its digest alone, so the chain that the server sends is
		// verified here, also if a session is resumed.
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does that
		VerifyConnection: func(state tls.ConnectionState) error {
			return e.verify(state.PeerCertificates, u.Hostname(), time.Now())
		},
	}, nil
}

func (e Endpoint) verify(chain []*x509.Certificate, name string, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("verifying the log service: it has no certificate")
	}
	roots := x509.NewCertPool()
	pinned := false
	for _, certificate := range chain[1:] {
		if Pin(certificate) == e.CA {
			roots.AddCert(certificate)
			pinned = true
		}
	}
	if !pinned {
		return fmt.Errorf("verifying the log service: the CA %s isn't in the chain that it sends", e.CA)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	if err != nil {
		return fmt.Errorf("verifying the log service by its CA %s: %w", e.CA, err)
	}
	return nil
}
