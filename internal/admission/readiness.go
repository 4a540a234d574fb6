// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"knative.dev/pkg/system"

	"github.com/entrypointer/entrypointer/internal/config"
)

// patience is for how long a replica puts up with webhook configurations that don't trust
// its certificate: longer than serve.Overlap, in which API servers, the replica and the
// leader learn of a new one, each at its own time.
const patience = time.Minute

// Readiness reports whether API servers can call a replica of the injector.
//
// A replica that isn't ready is of no use to anybody, so a doubt about it isn't enough:
// where all replicas have the same doubt, pods are refused. Whatever leaves some calls
// answered leaves the replica ready: watches that are lost, an API server that doesn't
// answer, a registry that is gone. So it becomes unready only when no call to it can
// succeed: when its certificate has expired, or no webhook configuration has trusted it
// for a while. What the leader mends within seconds is over before a replica that became
// unready would get requests again.
type Readiness struct {
	Configurations *Configurations
	// Certificate returns the certificate that the replica serves.
	Certificate func() (*tls.Certificate, error)

	informed atomic.Bool

	mu    sync.Mutex
	was   bool      // ready, and no configuration may be about to be applied
	trust trust     // at the last look
	since time.Time // trust is so
}

// trust is how many of the webhook configurations trust the certificate.
type trust int

const (
	byAll trust = iota
	bySome
	byNone
)

// errNotInformed is returned before InformersHaveSynced.
var errNotInformed = errors.New("waiting for the informers to sync")

// InformersHaveSynced ends the time in which the replica knows too little for decisions.
func (r *Readiness) InformersHaveSynced() { r.informed.Store(true) }

// Check returns an error while the replica isn't ready. Each call looks at the facts again,
// so that probes are its clock.
//
// A replica that starts is ready when every configuration trusts its certificate, so that
// all webhooks work when a rollout is complete, or when some have done so for a minute:
// one that can't be changed keeps nobody from calling the others. An absent configuration
// isn't waited for, because it may have been deleted for good. If it is applied within that
// minute, as in a new installation, the replica waits for it then.
func (r *Readiness) Check() error {
	if !r.informed.Load() {
		return errNotInformed
	}
	certificate, err := r.Certificate()
	if err != nil {
		return err
	}
	now := time.Now()
	if now.After(certificate.Leaf.NotAfter) {
		return fmt.Errorf("the webhook's certificate has expired at %s, and the leader among the replicas renews it", certificate.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	found, err := r.Configurations.list()
	if err != nil {
		return err
	}
	trust, doubt := trustOf(found, newVerifier(certificate))
	names := r.Configurations.names
	if !r.suffices(trust, len(found) == len(names.Mutating)+len(names.Validating), now) {
		return doubt
	}
	return nil
}

// suffices reports whether a replica is ready with this trust now. All of the configurations
// may be there, or some.
func (r *Readiness) suffices(trust trust, all bool, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if trust != r.trust || r.since.IsZero() {
		r.trust, r.since = trust, now
	}
	lasts := now.Sub(r.since) >= patience
	switch trust {
	case byAll:
		r.was = r.was || lasts || all
		return true
	case bySome:
		return r.was || lasts
	default:
		return r.was && !lasts
	}
}

// trustOf reports how many configurations trust a certificate, and why the first of the
// others doesn't. One whose webhooks all call something else trusts it.
func trustOf(found []configuration, v *verifier) (_ trust, doubt error) {
	doubted := 0
	for i := range found {
		if err := v.check(&found[i]); err != nil {
			doubted++
			if doubt == nil {
				doubt = err
			}
		}
	}
	switch doubted {
	case 0:
		return byAll, nil
	case len(found):
		return byNone, doubt
	default:
		return bySome, doubt
	}
}

// A verifier verifies a certificate by CA bundles, each of them once.
type verifier struct {
	certificate   *tls.Certificate
	intermediates *x509.CertPool
	verified      map[string]error // by CA bundle
}

func newVerifier(certificate *tls.Certificate) *verifier {
	v := &verifier{certificate: certificate, intermediates: x509.NewCertPool(), verified: map[string]error{}}
	for _, der := range certificate.Certificate[1:] {
		if authority, err := x509.ParseCertificate(der); err == nil {
			v.intermediates.AddCert(authority)
		}
	}
	return v
}

// check returns an error unless the CA bundle of each webhook verifies the certificate.
func (v *verifier) check(c *configuration) error {
	for _, bundle := range c.caBundles {
		if len(bundle) == 0 {
			return fmt.Errorf("waiting for the CA bundle of %s %q, which the leader among the replicas sets", c.kind, c.name)
		}
		err, known := v.verified[string(bundle)]
		if !known {
			err = v.verify(bundle)
			v.verified[string(bundle)] = err
		}
		if err != nil {
			return fmt.Errorf("waiting for a CA bundle of %s %q that verifies the webhook's certificate, which the leader among the replicas sets: %w", c.kind, c.name, err)
		}
	}
	return nil
}

// verify verifies the certificate as API servers do when they call.
func (v *verifier) verify(bundle []byte) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return errors.New("the bundle has no certificate")
	}
	_, err := v.certificate.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: v.intermediates, DNSName: config.WebhookService + "." + system.Namespace() + ".svc",
	})
	return err
}
