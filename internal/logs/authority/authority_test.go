// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	k8stesting "k8s.io/client-go/testing"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

const name = "logs.entrypointer-logs.svc"

// now is when the certificates of these tests are valid: clients verify with the real clock.
var now = time.Now()

func secretsOf(client *fake.Clientset) corev1client.SecretInterface {
	return client.CoreV1().Secrets(endpoint.Namespace)
}

func opened(t *testing.T, secrets corev1client.SecretInterface) *Authority {
	t.Helper()
	a, err := Open(t.Context(), secrets, name)
	require.NoError(t, err)
	return a
}

func TestReplicasHaveOneCA(t *testing.T) {
	t.Parallel()
	secrets := secretsOf(fake.NewClientset())
	var replicas [5]*Authority
	var group errgroup.Group
	for i := range replicas {
		group.Go(func() (err error) {
			replicas[i], err = Open(t.Context(), secrets, name)
			return err
		})
	}
	require.NoError(t, group.Wait())
	for _, replica := range replicas {
		require.Equal(t, replicas[0].Pin(), replica.Pin())
	}
	secret, err := secrets.Get(t.Context(), Secret, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, corev1.SecretTypeTLS, secret.Type)
	require.Equal(t, "entrypointer", secret.Labels["app.kubernetes.io/part-of"])
	ca := replicas[0].certificate
	require.Equal(t, elliptic.P256(), ca.PublicKey.(*ecdsa.PublicKey).Curve)
	require.WithinDuration(t, time.Now().AddDate(10, 0, 0), ca.NotAfter, 4*24*time.Hour)
}

func TestTheCAOfTheFasterReplicaIsUsed(t *testing.T) {
	t.Parallel()
	client, others := fake.NewClientset(), secretsOf(fake.NewClientset())
	other := opened(t, others)
	theirs, err := others.Get(t.Context(), Secret, metav1.GetOptions{})
	require.NoError(t, err)
	client.PrependReactor("create", "secrets", func(k8stesting.Action) (bool, runtime.Object, error) {
		return false, nil, client.Tracker().Add(theirs)
	})
	require.Equal(t, opened(t, secretsOf(client)).Pin(), other.Pin())
}

// handshake connects a client to a server, and returns what the server shows.
func handshake(t *testing.T, server *Authority, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: server.GetCertificate})
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		if c, err := listener.Accept(); err == nil {
			_ = c.(*tls.Conn).HandshakeContext(t.Context())
			_ = c.Close()
		}
	}()
	raw, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	defer raw.Close()
	connection := tls.Client(raw, client)
	err = connection.HandshakeContext(t.Context())
	return connection.ConnectionState(), err
}

func TestAClientVerifiesTheServiceByThePinAlone(t *testing.T) {
	t.Parallel()
	ours, others := opened(t, secretsOf(fake.NewClientset())), opened(t, secretsOf(fake.NewClientset()))
	for _, test := range []struct {
		name, address, pin string
		server             *Authority
		says               string
	}{
		{"the service", "https://" + name, ours.Pin(), ours, ""},
		{"another CA", "https://" + name, ours.Pin(), others, "its chain of certificates lacks the CA"},
		{"another name", "https://logs.example.com", ours.Pin(), ours, "not logs.example.com"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			config, err := endpoint.Endpoint{Address: test.address, CA: test.pin}.TLS()
			require.NoError(t, err)
			state, err := handshake(t, test.server, config)
			if test.says != "" {
				require.ErrorContains(t, err, test.says)
				return
			}
			require.NoError(t, err)
			require.Len(t, state.PeerCertificates, 2)
			require.Equal(t, ours.Pin(), endpoint.Pin(state.PeerCertificates[1]))
		})
	}
}

// The CA's certificate is public, so an attacker can send it in a chain.
func TestACertificateThatTheCAHasNotSignedIsRefused(t *testing.T) {
	t.Parallel()
	ours, others := opened(t, secretsOf(fake.NewClientset())), opened(t, secretsOf(fake.NewClientset()))
	_, err := others.GetCertificate(nil)
	require.NoError(t, err)
	others.serving.Certificate[1] = ours.certificate.Raw
	config, err := endpoint.Endpoint{Address: "https://" + name, CA: ours.Pin()}.TLS()
	require.NoError(t, err)
	_, err = handshake(t, others, config)
	require.ErrorContains(t, err, "verifying the log service by its CA")
}

func TestTheCertificateIsRenewedInTime(t *testing.T) {
	t.Parallel()
	clock := now
	a, err := open(t.Context(), secretsOf(fake.NewClientset()), func() time.Time { return clock }, []string{name})
	require.NoError(t, err)
	first, err := a.GetCertificate(nil)
	require.NoError(t, err)
	require.WithinDuration(t, now.Add(-time.Hour), first.Leaf.NotBefore, time.Second)
	require.WithinDuration(t, now.Add(14*24*time.Hour), first.Leaf.NotAfter, time.Second)
	for _, test := range []struct {
		after time.Duration
		same  bool
	}{{time.Minute, true}, {7*24*time.Hour - time.Second, true}, {7 * 24 * time.Hour, false}} {
		clock = now.Add(test.after)
		got, err := a.GetCertificate(nil)
		require.NoError(t, err)
		require.Equal(t, test.same, got == first, "after %v", test.after)
		require.NoError(t, got.Leaf.CheckSignatureFrom(a.certificate))
	}
	clock = now.Add(caLifetime + time.Minute)
	_, err = a.GetCertificate(nil)
	require.ErrorContains(t, err, `delete Secret "log-service-ca" for a new CA`)
}

func TestABrokenSecretIsReported(t *testing.T) {
	t.Parallel()
	certificate, key, err := newCA(now)
	require.NoError(t, err)
	_, otherKey, err := newCA(now)
	require.NoError(t, err)
	expired, expiredKey, err := newCA(now.Add(-caLifetime - time.Hour))
	require.NoError(t, err)
	leaf, leafKey := leafOf(t)
	for name, test := range map[string]struct {
		certificate, key []byte
		says             string
	}{
		"empty":                {nil, nil, "failed to find any PEM data"},
		"no key":               {certificate, nil, "failed to find any PEM data"},
		"another's key":        {certificate, otherKey, "private key does not match"},
		"not PEM":              {[]byte("certificate"), key, "failed to find any PEM data"},
		"not a CA":             {leaf, leafKey, "isn't a CA's"},
		"not valid any more":   {expired, expiredKey, "it is valid from"},
		"cut":                  {certificate[:len(certificate)/2], key, "failed to find any PEM data"},
		"both in the one file": {key, certificate, "failed to find"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Open(t.Context(), secretsOf(fake.NewClientset(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: endpoint.Namespace, Name: Secret},
				Data:       map[string][]byte{"tls.crt": test.certificate, "tls.key": test.key},
			})), name)
			require.ErrorContains(t, err, test.says)
			require.ErrorContains(t, err, `Secret "log-service-ca"`)
			require.ErrorContains(t, err, "restore the Secret")
		})
	}
}

// leafOf returns a valid certificate that isn't a CA's.
func leafOf(t *testing.T) (certificate, key []byte) {
	t.Helper()
	a := opened(t, secretsOf(fake.NewClientset()))
	pair, err := a.GetCertificate(nil)
	require.NoError(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func TestAFailureOfTheAPIServerIsReported(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"get", "create"} {
		client := fake.NewClientset()
		client.PrependReactor(verb, "secrets", func(k8stesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewInternalError(errors.New("no leader"))
		})
		_, err := Open(context.Background(), secretsOf(client), name)
		require.ErrorContains(t, err, "no leader")
		require.ErrorContains(t, err, `looking for the CA of the log service in Secret "log-service-ca"`)
	}
}

func TestSerialNumbersDiffer(t *testing.T) {
	t.Parallel()
	a := opened(t, secretsOf(fake.NewClientset()))
	first, err := a.GetCertificate(nil)
	require.NoError(t, err)
	b := &Authority{certificate: a.certificate, key: a.key, names: a.names, now: time.Now}
	second, err := b.GetCertificate(nil)
	require.NoError(t, err)
	require.NotEqual(t, first.Leaf.SerialNumber, second.Leaf.SerialNumber)
}
