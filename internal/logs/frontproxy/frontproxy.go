// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package frontproxy authenticates the API server when it proxies requests of its users.
// The API server names the user in headers.
//
// Anybody can send such headers. They count only on a connection with a client
// certificate of the API server, which is verified as the API server publishes in
// kube-system (trust.go).
package frontproxy

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/entrypointer/entrypointer/internal/logs/api"
)

const (
	// ConfigMap is the name of the ConfigMap in namespace kube-system by which extension API
	// servers verify the API server.
	ConfigMap = "extension-apiserver-authentication"
	// rereadInterval is how long a replaced CA is trusted. The API server publishes a new CA
	// before it uses it.
	rereadInterval = time.Minute
	// retryInterval is the pause after a read that failed.
	retryInterval = 5 * time.Second
	// readTimeout bounds one read of the ConfigMap.
	readTimeout = 10 * time.Second
)

// A Proxy is an api.FrontProxy.
type Proxy struct {
	now func() time.Time

	mu    sync.RWMutex
	trust *trust // nil before the first read
}

var _ api.FrontProxy = (*Proxy)(nil)

// New returns a Proxy that trusts nobody before Watch has read the ConfigMap.
func New() *Proxy { return &Proxy{now: time.Now} }

// Watch rereads the ConfigMap until ctx is done. While the API server is down, reading
// fails, but the log service goes on serving pods.
func (p *Proxy) Watch(ctx context.Context, logger *slog.Logger, maps corev1client.ConfigMapInterface) error {
	for {
		wait := rereadInterval
		if err := p.read(ctx, maps); err != nil && ctx.Err() == nil {
			logger.Error("Failed to read how to verify the API server", "error", err)
			wait = retryInterval
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func (p *Proxy) read(ctx context.Context, maps corev1client.ConfigMapInterface) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	configMap, err := maps.Get(ctx, ConfigMap, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading ConfigMap %q in namespace kube-system: %w", ConfigMap, err)
	}
	trust, err := parseTrust(configMap.Data)
	if err != nil {
		return fmt.Errorf("reading ConfigMap %q in namespace kube-system: %w; start the API server with the flags for an aggregation layer", ConfigMap, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trust = trust
	return nil
}

// errNotReadYet says that the ConfigMap wasn't read yet.
var errNotReadYet = errors.New("verifying the API server: its ConfigMap wasn't read yet")

// Verify returns nil if a certificate is the API server's, with the certificates that came
// after it.
func (p *Proxy) Verify(chain []*x509.Certificate) error {
	_, err := p.verify(chain)
	return err
}

// verify is Verify, and returns the trust by which it decided.
func (p *Proxy) verify(chain []*x509.Certificate) (*trust, error) {
	p.mu.RLock()
	trust := p.trust
	p.mu.RUnlock()
	switch {
	case len(chain) == 0:
		return nil, fmt.Errorf("verifying the API server: there is no client certificate: %w", api.ErrNotProxy)
	case trust == nil:
		return nil, errNotReadYet
	}
	if err := trust.verify(chain, p.now()); err != nil {
		return nil, fmt.Errorf("%w: %w", api.ErrNotProxy, err)
	}
	return trust, nil
}

// User implements api.FrontProxy.
func (p *Proxy) User(r *http.Request) (api.User, error) {
	var chain []*x509.Certificate
	if r.TLS != nil {
		chain = r.TLS.PeerCertificates
	}
	trust, err := p.verify(chain)
	if err != nil {
		return api.User{}, err
	}
	return trust.user(r.Header)
}

// verify returns an error unless a chain of certificates is the API server's.
func (t *trust) verify(chain []*x509.Certificate, now time.Time) error {
	intermediates := x509.NewCertPool()
	for _, certificate := range chain[1:] {
		intermediates.AddCert(certificate)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{
		Roots: t.roots, Intermediates: intermediates, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return fmt.Errorf("verifying a client certificate: %w", err)
	}
	if name := chain[0].Subject.CommonName; len(t.names) > 0 && !slices.Contains(t.names, name) {
		return fmt.Errorf("verifying a client certificate: its common name is %.100q, which isn't one of %q", name, t.names)
	}
	return nil
}
