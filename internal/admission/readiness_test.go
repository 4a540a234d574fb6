// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/system"
	certresources "knative.dev/pkg/webhook/certificates/resources"

	"github.com/entrypointer/entrypointer/internal/config"
)

// newCertificate returns a webhook's certificate for an hour, and the CA that signed it.
func newCertificate(t *testing.T) (*tls.Certificate, []byte) {
	t.Helper()
	key, certificate, ca, err := certresources.CreateCerts(t.Context(), config.WebhookService, system.Namespace(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	return &pair, ca
}

// A replica asks known configurations whether it is ready.
type replica struct {
	known
	Readiness

	certificate *tls.Certificate // nil if there is none
}

func newReplica(certificate *tls.Certificate) *replica {
	r := &replica{known: newKnown(), certificate: certificate}
	r.Readiness.Configurations = r.known.Configurations
	r.Certificate = func() (*tls.Certificate, error) {
		if r.certificate == nil {
			return nil, errors.New("there is none")
		}
		return r.certificate, nil
	}
	r.InformersHaveSynced()
	return r
}

// probe checks once a second for that long, as kubelets do, and returns what the last check
// has found.
func (r *replica) probe(d time.Duration) (err error) {
	for range d / time.Second {
		time.Sleep(time.Second)
		err = r.Check()
	}
	return err
}

func TestAReplicaIsReadyWhenEachConfigurationTrustsItsCertificate(t *testing.T) {
	certificate, ca := newCertificate(t)
	_, former := newCertificate(t)
	for name, test := range map[string]struct {
		mutating, validating []byte
		wants                string
	}{
		"both do":                      {mutating: ca, validating: ca},
		"beside a former CA":           {mutating: slices.Concat(ca, former), validating: ca},
		"a new installation":           {wants: `waiting for the CA bundle of MutatingWebhookConfiguration "pods"`},
		"one is behind":                {mutating: ca, wants: `waiting for the CA bundle of ValidatingWebhookConfiguration "config"`},
		"the CA is that of yesterday":  {mutating: former, validating: ca, wants: "that verifies the webhook's certificate"},
		"the bundle isn't one of CAs":  {mutating: []byte("none"), validating: ca, wants: "the bundle has no certificate"},
		"a former CA, on the other's ": {mutating: ca, validating: former, wants: `of ValidatingWebhookConfiguration "config" that verifies`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplica(certificate)
			r.setMutating(t, test.mutating, nil)
			r.setValidating(t, test.validating, nil)
			if test.wants == "" {
				require.NoError(t, r.Check())
				return
			}
			require.ErrorContains(t, r.Check(), test.wants)
			r.setMutating(t, ca, nil)
			r.setValidating(t, ca, nil)
			require.NoError(t, r.Check(), "when the leader has set them")
		})
	}
}

// As those of cert-manager can be: API servers get the authority between with the handshake.
func TestACertificateOfAnAuthorityBetweenIsTrusted(t *testing.T) {
	var issuer *x509.Certificate
	var signer *ecdsa.PrivateKey
	var chain [][]byte
	for i, name := range []string{"root", "between", "webhook"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IsCA: name != "webhook", BasicConstraintsValid: true, DNSNames: []string{config.WebhookService + "." + system.Namespace() + ".svc"},
		}
		template.Subject.CommonName = name
		if issuer == nil {
			issuer, signer = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), signer)
		require.NoError(t, err)
		issuer, err = x509.ParseCertificate(der)
		require.NoError(t, err)
		signer, chain = key, append([][]byte{der}, chain...)
	}
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chain[2]})
	r := newReplica(&tls.Certificate{Certificate: chain[:2], Leaf: issuer})
	r.setMutating(t, root, nil)
	r.setValidating(t, root, nil)
	require.NoError(t, r.Check())
	r = newReplica(&tls.Certificate{Certificate: chain[:1], Leaf: issuer})
	r.setMutating(t, root, nil)
	require.ErrorContains(t, r.Check(), "unknown authority", "it isn't served")
}

func TestAReplicaIsNotReadyBeforeItHasACertificate(t *testing.T) {
	require.ErrorContains(t, newReplica(nil).Check(), "there is none")
}

func TestAReplicaIsNotReadyBeforeItsCachesAreFilled(t *testing.T) {
	certificate, ca := newCertificate(t)
	r := newReplica(certificate)
	r.setMutating(t, ca, nil)
	r.setValidating(t, ca, nil)
	r.informed.Store(false)
	require.ErrorIs(t, r.Check(), errNotInformed, "it would have to read each namespace")
	r.InformersHaveSynced()
	r.synced = func() bool { return false }
	require.ErrorIs(t, r.Check(), errNotSynced)
	require.False(t, r.Gone(0), "nor does it take the configurations for deleted")
	r.synced = func() bool { return true }
	require.NoError(t, r.Check())
}

// The leader mends them within seconds, and API servers may hear of a new certificate before
// or after the replica. All replicas would become unready at once.
func TestAReplicaThatWasReadyPutsUpWithDoubts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		certificate, ca := newCertificate(t)
		_, later := newCertificate(t)
		r := newReplica(certificate)
		r.setMutating(t, ca, nil)
		r.setValidating(t, ca, nil)
		require.NoError(t, r.Check())

		r.setMutating(t, later, nil)
		require.NoError(t, r.probe(10*time.Minute), "API servers that ask by the other configuration can call")
		r.setValidating(t, nil, nil)
		require.NoError(t, r.probe(patience-time.Second), "somebody has applied it anew")
		require.ErrorContains(t, r.probe(2*time.Second), "that verifies the webhook's certificate", "nobody can call for a minute")
		require.Error(t, r.probe(10*time.Minute))
		r.setValidating(t, ca, nil)
		require.NoError(t, r.Check(), "some can, at once")
		r.setMutating(t, ca, nil)
		require.NoError(t, r.probe(10*time.Minute))
		r.setMutating(t, nil, nil)
		r.setValidating(t, nil, nil)
		require.NoError(t, r.probe(patience-time.Second), "each time anew")
	})
}

func TestAReplicaWhoseCertificateHasExpiredIsUnreadyUntilItHasANewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		certificate, ca := newCertificate(t) // for an hour
		r := newReplica(certificate)
		r.setMutating(t, ca, nil)
		r.setValidating(t, ca, nil)
		require.NoError(t, r.Check())
		time.Sleep(time.Until(certificate.Leaf.NotAfter) - time.Second)
		require.NoError(t, r.Check())
		require.ErrorContains(t, r.probe(2*time.Second), "has expired")
		r.certificate = nil
		require.ErrorContains(t, r.probe(time.Second), "there is none", "its Secret was deleted as well")
		r.certificate, ca = newCertificate(t)
		require.NoError(t, r.probe(time.Second), "the leader is about to set the CA")
		r.setMutating(t, ca, nil)
		r.setValidating(t, ca, nil)
		require.NoError(t, r.probe(time.Minute))
	})
}

// As the leader may not be able to: the configuration is as large as etcd takes.
func TestAConfigurationThatNobodyMendsKeepsNoReplicaFromStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		certificate, ca := newCertificate(t)
		r := newReplica(certificate)
		r.setMutating(t, ca, nil)
		r.setValidating(t, []byte("none"), nil)
		require.Error(t, r.Check())
		require.Error(t, r.probe(patience-time.Second))
		require.NoError(t, r.probe(10*time.Minute), "those that trust it are called")
		r.setMutating(t, nil, nil)
		require.Error(t, r.probe(10*time.Minute), "none does")
		r.setMutating(t, ca, nil)
		require.Error(t, r.Check(), "a minute from now")
		require.NoError(t, r.probe(patience))
	})
}

// An operator may have deleted one, and means it. In an installation that begins, one
// may be about to be applied.
func TestAConfigurationThatIsMissingIsNotWaitedForUntilItIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		certificate, ca := newCertificate(t)
		r := newReplica(certificate)
		r.setValidating(t, ca, nil)
		require.NoError(t, r.probe(patience-time.Second))
		r.setMutating(t, nil, nil)
		require.Error(t, r.Check())
		r.setMutating(t, ca, nil)
		require.NoError(t, r.Check())

		r = newReplica(certificate)
		r.setValidating(t, ca, nil)
		require.NoError(t, r.probe(2*patience))
		r.setValidating(t, nil, nil)
		require.NoError(t, r.Check(), "no installation begins any more: the leader is about to set the CA")
		require.NoError(t, r.validating.Delete(&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "config"}}))
		require.NoError(t, r.probe(10*time.Minute), "all were deleted for good")
	})
}

// Neither their names nor their number matter.
func TestEntriesOfSomebodyElseKeepNoReplicaUnready(t *testing.T) {
	certificate, ca := newCertificate(t)
	r := newReplica(certificate)
	foreign := func(service string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "policies", Name: service}}
	}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "pods"}}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "config"}}
	for i := range 5000 {
		mutating.Webhooks = append(mutating.Webhooks, admissionregistrationv1.MutatingWebhook{Name: fmt.Sprint(i, ".example.test"), ClientConfig: foreign("webhook")})
		validating.Webhooks = append(validating.Webhooks, admissionregistrationv1.ValidatingWebhook{Name: fmt.Sprint(i, ".example.test"), ClientConfig: foreign("entrypointer-webhook")})
	}
	mutating.Webhooks = append(mutating.Webhooks, admissionregistrationv1.MutatingWebhook{Name: "ours", ClientConfig: ours(ca)})
	validating.Webhooks[0].Name = "config" // in the place of ours
	require.NoError(t, r.mutating.Add(mutating))
	require.NoError(t, r.validating.Add(validating))
	require.NoError(t, r.Check())

	for range 5000 {
		mutating.Webhooks = append(mutating.Webhooks, admissionregistrationv1.MutatingWebhook{ClientConfig: ours(ca)})
	}
	looked := newVerifier(certificate)
	found, err := r.list()
	require.NoError(t, err)
	trust, doubt := trustOf(found, looked)
	require.NoError(t, doubt)
	require.Equal(t, byAll, trust)
	require.Len(t, looked.verified, 1, "a bundle is verified once")
}
