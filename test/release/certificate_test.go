// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package release

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// writeCertificate writes tls.crt, tls.key and ca.crt, as an authority of the user's makes them.
func (u *user) writeCertificate() {
	u.Helper()
	write := func(name, kind string, der []byte) {
		require.NoError(u, os.WriteFile(filepath.Join(u.directory, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	template := func(serial int64) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0), BasicConstraintsValid: true}
	}
	authority, served := template(1), template(2)
	authority.IsCA = true
	served.DNSNames = []string{"entrypointer-webhook.entrypointer-system.svc"}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(u, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(u, err)
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, &caKey.PublicKey, caKey)
	require.NoError(u, err)
	write("ca.crt", "CERTIFICATE", der)
	der, err = x509.CreateCertificate(rand.Reader, served, authority, &key.PublicKey, caKey)
	require.NoError(u, err)
	write("tls.crt", "CERTIFICATE", der)
	der, err = x509.MarshalPKCS8PrivateKey(key)
	require.NoError(u, err)
	write("tls.key", "PRIVATE KEY", der)
}

func TestACertificateOfOnesOwnIsServed(t *testing.T) {
	u := newUser(t)
	u.removeAll()
	t.Cleanup(u.removeAll)
	u.unpackPlugin(latest)
	u.run("%s install entrypointer %s/entrypointer-%s.tgz --namespace default --set webhook.certificateSecret=mine", helm, latest, latest)
	// What the chart creates has the namespace.
	u.writeCertificate()
	const trusted = "kubectl get mutatingwebhookconfigurations pods.entrypointer.dev -o jsonpath='{.webhooks[*].clientConfig.caBundle}'"
	require.Empty(t, u.run(trusted), "the injector has made none")
	u.run("kubectl -n entrypointer-system create secret generic mine --from-file=tls.crt --from-file=tls.key --from-file=ca.crt")
	u.eventually("test \"$(%s)\" = \"$(base64 -w 0 <ca.crt) $(base64 -w 0 <ca.crt)\"", trusted)
	u.requireWorks(latest)
	u.run("kubectl entrypointer check --wait 2m")

	u.writeCertificate()
	u.run("kubectl -n entrypointer-system create secret generic mine --from-file=tls.crt --from-file=tls.key --from-file=ca.crt --dry-run=client -o yaml | kubectl apply -f -")
	u.eventually("%s | cut -d ' ' -f 1 | base64 -d | head -c $(wc -c <ca.crt) | cmp - ca.crt", trusted)
	u.requireWorks(latest)
	u.run("%s uninstall entrypointer --namespace default --wait", helm)
	u.requireRemoved()
}
