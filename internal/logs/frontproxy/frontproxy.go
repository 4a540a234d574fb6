// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package frontproxy knows the API server, which passes on requests of people whom
// it has authenticated, and says in headers who they are.
//
// Anybody can send such headers. They count only if the connection's certificate is
// one of those that the API server publishes in kube-system (trust.go).
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
	// ConfigMap is where API servers say by what extensions know them, in namespace
	// kube-system.
	ConfigMap = "extension-apiserver-authentication"
	// reread is how long the former CA is believed after there is a new one. API
	// servers publish a new one before they use it.
	reread = time.Minute
	// retry is how soon it is read again if that failed.
	retry = 5 * time.Second
	// readLimit is what the API server may take for it.
	readLimit = 10 * time.Second
)

// A Proxy implements api.FrontProxy.
type Proxy struct {
	now func() time.Time

	mu    sync.RWMutex
	trust *trust // nil until it is read
}

var _ api.FrontProxy = (*Proxy)(nil)

// New returns one that trusts nobody yet.
func New() *Proxy { return &Proxy{now: time.Now} }

// Keep reads whom to trust until ctx is done. That fails while the API server is
// away, which is no reason to stop serving others.
func (p *Proxy) Keep(ctx context.Context, logger *slog.Logger, maps corev1client.ConfigMapInterface) error {
	for {
		wait := reread
		if err := p.read(ctx, maps); err != nil && ctx.Err() == nil {
			logger.Error("Failed to learn how to know the API server", "error", err)
			wait = retry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func (p *Proxy) read(ctx context.Context, maps corev1client.ConfigMapInterface) error {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	configMap, err := maps.Get(ctx, ConfigMap, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading ConfigMap %q in namespace kube-system: %w", ConfigMap, err)
	}
	trust, err := trustOf(configMap.Data)
	if err != nil {
		return fmt.Errorf("reading ConfigMap %q in namespace kube-system: %w; start the API server with the flags for an aggregation layer", ConfigMap, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trust = trust
	return nil
}

// errUnknown says that it isn't known yet whom to trust.
var errUnknown = errors.New("how to know the API server hasn't been read yet")

// User implements api.FrontProxy.
func (p *Proxy) User(r *http.Request) (api.User, error) {
	p.mu.RLock()
	trust := p.trust
	p.mu.RUnlock()
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return api.User{}, fmt.Errorf("a request without a client's certificate: %w", api.ErrNotProxy)
	}
	if trust == nil {
		return api.User{}, errUnknown
	}
	if err := trust.verify(r.TLS.PeerCertificates, p.now()); err != nil {
		return api.User{}, fmt.Errorf("%w: %w", api.ErrNotProxy, err)
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
		return fmt.Errorf("verifying a client's certificate: %w", err)
	}
	if name := chain[0].Subject.CommonName; len(t.names) > 0 && !slices.Contains(t.names, name) {
		return fmt.Errorf("verifying a client's certificate: its name, %.100q, is none of %q", name, t.names)
	}
	return nil
}
