// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"

	"knative.dev/pkg/apis"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// checkCaller returns a refusal unless the caller shows a certificate that one of the CAs
// signed. Without CAs, every caller is accepted.
func checkCaller(ctx context.Context, cas *x509.CertPool) error {
	if cas == nil {
		return nil
	}
	if err := verifyCaller(ctx, cas); err != nil {
		return &pod.Refusal{Outcome: pod.UnknownCaller, Err: fmt.Errorf("verifying the caller: %w; configure the API server to show a client certificate "+
			"that a CA of api-server-ca in the injector's configuration signed, or remove that key", err)}
	}
	return nil
}

func verifyCaller(ctx context.Context, cas *x509.CertPool) error {
	request := apis.GetHTTPRequest(ctx)
	if request == nil || request.TLS == nil || len(request.TLS.PeerCertificates) == 0 {
		return errors.New("there is no client certificate")
	}
	shown := request.TLS.PeerCertificates
	between := x509.NewCertPool()
	for _, certificate := range shown[1:] {
		between.AddCert(certificate)
	}
	_, err := shown[0].Verify(x509.VerifyOptions{
		Roots: cas, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
}

// address returns the address of the request's sender.
func address(ctx context.Context) string {
	if request := apis.GetHTTPRequest(ctx); request != nil {
		return request.RemoteAddr
	}
	return ""
}
