// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

// A cluster lives for days; its certificates for a year.
const validity = 365 * 24 * time.Hour

// certificate is what one component shows the others, or they it.
type certificate struct {
	name         string // of the files, and of the kubeconfig
	user         string // common name: the user, for Kubernetes
	group        string // organization: the group, for Kubernetes
	servesAt     []string
	isKubeconfig bool
}

// certificates are those that kubeadm would make, and that the authority signs.
func certificates() []certificate {
	return []certificate{
		{name: "etcd", user: "etcd", servesAt: []string{layout.NodeIP, "127.0.0.1"}},
		{name: "kube-apiserver", user: "kube-apiserver", servesAt: []string{
			layout.NodeIP, layout.APIServiceIP, "127.0.0.1", "localhost", layout.NodeName,
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}},
		{name: "kube-apiserver-etcd-client", user: "kube-apiserver-etcd-client"},
		{name: "kube-apiserver-kubelet-client", user: "kube-apiserver-kubelet-client", group: "system:masters"},
		{name: "kubelet-server", user: "system:node:" + layout.NodeName, group: "system:nodes", servesAt: []string{layout.NodeIP, layout.NodeName}},
		{name: "kubelet", user: "system:node:" + layout.NodeName, group: "system:nodes", isKubeconfig: true},
		{name: "kube-controller-manager", user: "system:kube-controller-manager", isKubeconfig: true},
		{name: "kube-scheduler", user: "system:kube-scheduler", isKubeconfig: true},
		{name: "kube-proxy", user: "system:kube-proxy", isKubeconfig: true},
		{name: "admin", user: "kubernetes-admin", group: "system:masters", isKubeconfig: true},
	}
}

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// writePKI makes an authority, the certificates, and the key that signs
// service accounts' tokens, all new.
func writePKI(l layout.Layout) error {
	if err := os.MkdirAll(l.PKI(), 0o700); err != nil {
		return fmt.Errorf("making certificates: %w", err)
	}
	ca, err := newAuthority(l.PKI("ca"))
	if err != nil {
		return fmt.Errorf("making the certificate authority: %w", err)
	}
	// Aggregated API servers trust another one: whoever it vouches for may
	// speak for any user.
	frontProxy, err := newAuthority(l.PKI("front-proxy-ca"))
	if err != nil {
		return fmt.Errorf("making the front proxy's authority: %w", err)
	}
	if err := frontProxy.issue(certificate{user: "front-proxy-client"}, l.PKI("front-proxy-client")); err != nil {
		return fmt.Errorf("making the front proxy's certificate: %w", err)
	}
	// Webhooks that want to know that an API server calls them trust another one again:
	// the cluster's vouches for kubelets and users, too.
	webhooks, err := newAuthority(l.PKI("webhook-client-ca"))
	if err != nil {
		return fmt.Errorf("making the authority for calls of webhooks: %w", err)
	}
	if err := webhooks.issue(certificate{user: "kube-apiserver"}, l.PKI("webhook-client")); err != nil {
		return fmt.Errorf("making the certificate for calls of webhooks: %w", err)
	}
	for _, c := range certificates() {
		if err := ca.issue(c, l.PKI(c.name)); err != nil {
			return fmt.Errorf("making the certificate %q: %w", c.name, err)
		}
	}
	key, err := newKey(l.PKI("service-accounts.key"))
	if err != nil {
		return fmt.Errorf("making the service accounts' key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("making the service accounts' key: %w", err)
	}
	return writePEM(l.PKI("service-accounts.pub"), "PUBLIC KEY", public)
}

func newAuthority(path string) (*authority, error) {
	key, err := newKey(path + ".key")
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: "entrypointer-" + filepath.Base(path)})
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{certificate: cert, key: key}, writePEM(path+".crt", "CERTIFICATE", der)
}

func (a *authority) issue(c certificate, path string) error {
	key, err := newKey(path + ".key")
	if err != nil {
		return err
	}
	subject := pkix.Name{CommonName: c.user}
	if c.group != "" {
		subject.Organization = []string{c.group}
	}
	template, err := newTemplate(subject)
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(c.servesAt) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, name := range c.servesAt {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return err
	}
	return writePEM(path+".crt", "CERTIFICATE", der)
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	// Clocks that differ by a little are no reason to fail.
	now := time.Now().Add(-time.Minute)
	return &x509.Certificate{SerialNumber: serial, Subject: subject, NotBefore: now, NotAfter: now.Add(validity)}, nil
}

func newKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
