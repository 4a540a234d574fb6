// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"
)

// trusting returns a configuration that trusts one of these CAs, each given as
// sha256: and the hexadecimal SHA-256 of its public key, as kubeadm's
// discovery-token-ca-cert-hash has it: so short that it is an argument, and the same
// when the CA renews its certificate. The server sends the CA's certificate with its own.
func trusting(host string, authorities []string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// The usual verification is replaced, not left out.
		InsecureSkipVerify: true, //nolint:gosec // G402: see VerifyConnection
		VerifyConnection: func(state tls.ConnectionState) error {
			// state.ServerName is empty for an address.
			return verify(state.PeerCertificates, host, authorities, time.Now())
		},
	}
}

func verify(chain []*x509.Certificate, host string, authorities []string, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("the server shows no certificate")
	}
	options := x509.VerifyOptions{DNSName: host, Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: now}
	known := false
	for _, certificate := range chain[1:] {
		if isOneOf(certificate, authorities) {
			options.Roots.AddCert(certificate)
			known = true
		} else {
			options.Intermediates.AddCert(certificate)
		}
	}
	if !known {
		return errors.New("the server's certificate is of another CA than " + strings.Join(authorities, " or ") + ": has the log service been installed anew? then start the pod anew")
	}
	_, err := chain[0].Verify(options)
	return err
}

func isOneOf(certificate *x509.Certificate, authorities []string) bool {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return certificate.IsCA && slices.Contains(authorities, "sha256:"+hex.EncodeToString(sum[:]))
}
