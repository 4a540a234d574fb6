// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/registries"
)

func TestCertificatesVerify(t *testing.T) {
	l := layout.Layout{State: t.TempDir()}
	if err := writePKI(l); err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(l.PKI("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	for _, c := range certificates() {
		text, err := os.ReadFile(l.PKI(c.name + ".crt"))
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(text)
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		usages := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		for _, name := range c.servesAt {
			options := x509.VerifyOptions{Roots: roots, DNSName: name, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
			if _, err := certificate.Verify(options); err != nil {
				t.Errorf("%s at %s: %v", c.name, name, err)
			}
		}
		if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: usages}); err != nil {
			t.Errorf("%s as a client: %v", c.name, err)
		}
		if certificate.Subject.CommonName != c.user {
			t.Errorf("%s: user %q, want %q", c.name, certificate.Subject.CommonName, c.user)
		}
	}
}

func TestConfig(t *testing.T) {
	l := layout.Layout{State: t.TempDir(), Cache: t.TempDir()}
	if err := writePKI(l); err != nil {
		t.Fatal(err)
	}
	if err := writeConfig(l, "registry/pause", "1.36"); err != nil {
		t.Fatal(err)
	}
	if err := writeRegistryConfig(l); err != nil {
		t.Fatal(err)
	}
	if err := writePrivateRegistryConfig(l); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		l.Kubeconfig(), l.Config("kubelet.yaml"), l.Config("kube-proxy.yaml"), l.Config("registry.yaml"), l.Config("private-registry.yaml"),
		l.Config("kubelet.kubeconfig"), l.Config("cni", "10-pods.conflist"),
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := yaml.Unmarshal(text, &fields); err != nil || len(fields) == 0 {
			t.Errorf("%s: %v in %s", path, err, text)
		}
	}
	containerd, err := os.ReadFile(l.Config("containerd.toml"))
	if err != nil || !strings.Contains(string(containerd), `sandbox = "registry/pause"`) {
		t.Errorf("containerd.toml: %s, %v", containerd, err)
	}
}

func TestContainerdReadsWhereEachRegistryIs(t *testing.T) {
	l := layout.Layout{State: t.TempDir(), Cache: t.TempDir()}
	if err := writeHosts(l); err != nil {
		t.Fatal(err)
	}
	for name, want := range registries.Hosts() {
		if text, err := os.ReadFile(l.Config("certs.d", name)); err != nil || string(text) != want {
			t.Errorf("%s: %v, %s", name, err, text)
		}
	}
}
