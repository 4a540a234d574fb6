// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

const (
	// maxCertificates bounds the certificates that a caller shows, in bytes.
	maxCertificates = 16 << 10
	// maxNames bounds the names, uses and extensions in them. A list of short ones takes
	// twenty times its length in memory.
	maxNames = 200
)

// CheckCertificates returns an error if a caller shows certificates that take more memory
// than an API server's do. A server keeps them as long as the connection lives, so this
// belongs to the handshake ([tls.Config.VerifyConnection]).
func CheckCertificates(state tls.ConnectionState) error {
	bytes, names := 0, 0
	for _, c := range state.PeerCertificates {
		bytes += len(c.Raw)
		names += len(c.Subject.Names) + len(c.Issuer.Names) + len(c.Extensions) + len(c.ExtKeyUsage) + len(c.UnknownExtKeyUsage) +
			len(c.DNSNames) + len(c.EmailAddresses) + len(c.IPAddresses) + len(c.URIs) + len(c.Policies) + len(c.PolicyMappings) +
			len(c.OCSPServer) + len(c.IssuingCertificateURL) + len(c.CRLDistributionPoints) +
			len(c.PermittedDNSDomains) + len(c.ExcludedDNSDomains) + len(c.PermittedEmailAddresses) + len(c.ExcludedEmailAddresses) +
			len(c.PermittedIPRanges) + len(c.ExcludedIPRanges) + len(c.PermittedURIDomains) + len(c.ExcludedURIDomains)
	}
	if bytes > maxCertificates || names > maxNames {
		return fmt.Errorf("reading the client's certificates: they have %d bytes, and %d names, uses and extensions; show a certificate with fewer", bytes, names)
	}
	return nil
}

// checkCaller returns an error unless the caller shows a certificate that one of the CAs
// signed. Without CAs, every caller is accepted.
func checkCaller(connection *tls.ConnectionState, cas *x509.CertPool) error {
	if cas == nil {
		return nil
	}
	if err := verifyCaller(connection, cas); err != nil {
		return fmt.Errorf("verifying the caller: %w; configure the API server to show a client certificate "+
			"that a CA of api-server-ca in the injector's configuration signed, or remove that key", err)
	}
	return nil
}

func verifyCaller(connection *tls.ConnectionState, cas *x509.CertPool) error {
	if connection == nil || len(connection.PeerCertificates) == 0 {
		return errors.New("there is no client certificate")
	}
	shown := connection.PeerCertificates
	between := x509.NewCertPool()
	for _, certificate := range shown[1:] {
		between.AddCert(certificate)
	}
	_, err := shown[0].Verify(x509.VerifyOptions{
		Roots: cas, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
}
