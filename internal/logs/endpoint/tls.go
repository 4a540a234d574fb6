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

// TLS returns the configuration of a client that trusts only chains that end at the
// pinned CA.
func (e Endpoint) TLS() (*tls.Config, error) {
	u, err := url.Parse(e.Address)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the log service: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: u.Hostname(),
		// Only the digest of the CA is known, so VerifyConnection verifies the chain that
		// the server sends, also for a resumed session.
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does that
		VerifyConnection: func(state tls.ConnectionState) error {
			return e.verify(state.PeerCertificates, u.Hostname(), time.Now())
		},
	}, nil
}

func (e Endpoint) verify(chain []*x509.Certificate, name string, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("verifying the log service: it has sent no certificate")
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
		return fmt.Errorf("verifying the log service: its chain of certificates lacks the CA %s", e.CA)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	if err != nil {
		return fmt.Errorf("verifying the log service by its CA %s: %w", e.CA, err)
	}
	return nil
}
