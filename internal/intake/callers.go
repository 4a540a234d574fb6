// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

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
