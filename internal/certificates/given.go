// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/system"
	"knative.dev/pkg/webhook"
	certresources "knative.dev/pkg/webhook/certificates/resources"
)

// caKey is the key of a Secret of the type kubernetes.io/tls that cert-manager adds.
const caKey = "ca.crt"

// NewGiven returns the constructor of a controller that copies the certificate of another
// Secret of the injector's namespace into the one that is served from. That Secret has the keys
// tls.crt, tls.key and ca.crt, as cert-manager writes them, and whoever writes it renews the
// certificate. The controller takes the place of those that make certificates.
func NewGiven(secret string) func(context.Context, configmap.Watcher) *controller.Impl {
	return func(ctx context.Context, _ configmap.Watcher) *controller.Impl {
		g := &given{from: secret, server: webhook.GetOptions(ctx).ServiceName + "." + system.Namespace() + ".svc"}
		return g.start(ctx, g, secret)
	}
}

type given struct {
	servedSecret

	from   string // the name of the Secret with the certificate
	server string // the name by which API servers call
}

// Reconcile implements controller.Reconciler. What can't be served leaves the former
// certificate in its place.
func (g *given) Reconcile(ctx context.Context, key string) error {
	if !g.IsLeaderFor(g.key) {
		return controller.NewSkipKey(key)
	}
	secret, err := g.secrets.Secrets(g.key.Namespace).Get(g.from)
	if err != nil {
		return fmt.Errorf("reading the given certificate: %w; create Secret %s/%s, or start the injector without -certificate-secret", err, g.key.Namespace, g.from)
	}
	if err := g.check(secret.Data, time.Now()); err != nil {
		return fmt.Errorf("reading the given certificate in Secret %q: %w; the former certificate stays", g.from, err)
	}
	data := map[string][]byte{
		certresources.ServerCert: secret.Data[corev1.TLSCertKey], certresources.ServerKey: secret.Data[corev1.TLSPrivateKeyKey], certresources.CACert: secret.Data[caKey],
	}
	served, err := g.secrets.Secrets(g.key.Namespace).Get(g.key.Name)
	switch {
	case err == nil && maps.EqualFunc(served.Data, data, func(a, b []byte) bool { return string(a) == string(b) }):
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("reading the webhook's certificate: %w", err)
	}
	copied, err := g.apply(ctx, data)
	if err != nil {
		return fmt.Errorf("copying the given certificate to Secret %q: %w", g.key, err)
	}
	if copied {
		logging.FromContext(ctx).Infof("Copied the certificate of Secret %q to %q", g.from, g.key)
	}
	return nil
}

// check returns an error unless API servers that trust the CA would trust the certificate.
func (g *given) check(data map[string][]byte, now time.Time) error {
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return fmt.Errorf("keys %s and %s: %w", corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data[caKey]) {
		return errors.New("key " + caKey + " has no certificate: the API server is told to trust that one")
	}
	for _, der := range pair.Certificate[1:] {
		if authority, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(authority)
		}
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: g.server, Roots: roots, Intermediates: between, CurrentTime: now}); err != nil {
		return fmt.Errorf("%s doesn't verify %s: %w", caKey, corev1.TLSCertKey, err)
	}
	return nil
}
