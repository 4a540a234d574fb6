// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"embed"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/entrypointer/entrypointer/test/cluster/internal/host"
	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/registries"
)

//go:embed config
var templates embed.FS

// settings is what the templates know.
type settings struct {
	layout.Layout

	NodeIP, NodeName, Registry, APIServer string
	DNSServiceIP, ServiceCIDR             string
	PodCIDR, KindPodCIDR                  string
	IngressNodePort                       int

	CgroupRoot, CNIPlugins, CNINetwork string
	Pause                              string // the image of the container that holds a pod's namespaces
	RestrictOOMScoreAdj                bool
	FeatureGates                       map[string]bool
}

func newSettings(l layout.Layout, pause string) settings {
	return settings{
		Layout: l,
		NodeIP: layout.NodeIP, NodeName: layout.NodeName, Registry: layout.Registry,
		APIServer: layout.APIServer, DNSServiceIP: layout.DNSServiceIP, ServiceCIDR: layout.ServiceCIDR,
		PodCIDR: layout.PodCIDR, KindPodCIDR: layout.KindPodCIDR, IngressNodePort: layout.IngressNodePort,
		CgroupRoot: host.CgroupRoot, CNIPlugins: host.CNIPlugins, CNINetwork: host.CNINetwork,
		Pause:               pause,
		RestrictOOMScoreAdj: !host.HasCapability(host.CapSysResource),
	}
}

// writeRegistryConfig writes what the registry reads, which is started first.
func writeRegistryConfig(l layout.Layout) error {
	return render("registry.yaml", l.Config("registry.yaml"), newSettings(l, ""))
}

// writePrivateRegistryConfig writes what the private registry reads.
func writePrivateRegistryConfig(l layout.Layout) error {
	s := newSettings(l, "")
	s.Registry = layout.PrivateRegistry
	for name, path := range map[string]string{
		"private-registry.yaml": l.Config("private-registry.yaml"),
		"htpasswd":              l.Config("htpasswd"),
	} {
		if err := render(name, path, s); err != nil {
			return err
		}
	}
	return nil
}

// writeHosts writes from where containerd pulls images, which it reads at each pull.
func writeHosts(l layout.Layout) error {
	for name, text := range registries.Hosts() {
		if err := write(l.Config("certs.d", name), text); err != nil {
			return err
		}
	}
	return nil
}

// writeConfig writes the components' configuration and kubeconfigs, for a version of
// Kubernetes.
func writeConfig(l layout.Layout, pause, kubernetes string) error {
	s := newSettings(l, pause)
	s.FeatureGates = gates(kubernetes)
	for name, path := range map[string]string{
		"kubelet.yaml":    l.Config("kubelet.yaml"),
		"kube-proxy.yaml": l.Config("kube-proxy.yaml"),
		"containerd.toml": l.Config("containerd.toml"),
		"cni.conflist":    l.Config("cni", "10-pods.conflist"),
		"admission.yaml":  l.Config("admission.yaml"),
		"webhooks.yaml":   l.Config("webhooks.kubeconfig"),
	} {
		if err := render(name, path, s); err != nil {
			return err
		}
	}
	var resolvConf strings.Builder
	for _, server := range host.Nameservers() {
		fmt.Fprintf(&resolvConf, "nameserver %s\n", server)
	}
	if err := write(l.Config("resolv.conf"), resolvConf.String()); err != nil {
		return err
	}
	// The administrator's is the last: its presence tells that all is there.
	for _, c := range certificates() {
		if !c.isKubeconfig {
			continue
		}
		if err := writeKubeconfig(l, c); err != nil {
			return err
		}
	}
	return nil
}

func writeKubeconfig(l layout.Layout, c certificate) error {
	data := map[string]string{"User": c.user, "APIServer": layout.APIServer}
	for field, file := range map[string]string{
		"Authority":   "ca.crt",
		"Certificate": c.name + ".crt",
		"Key":         c.name + ".key",
	} {
		content, err := os.ReadFile(l.PKI(file))
		if err != nil {
			return fmt.Errorf("writing the kubeconfig of %q: %w", c.user, err)
		}
		data[field] = base64.StdEncoding.EncodeToString(content)
	}
	path := l.Config(c.name + ".kubeconfig")
	if c.name == "admin" {
		path = l.Kubeconfig()
	}
	return render("kubeconfig.yaml", path, data)
}

// render writes a template, filled in, to a file.
func render(name, path string, data any) error {
	text, err := rendered(name, data)
	if err != nil {
		return err
	}
	return write(path, text)
}

func rendered(name string, data any) (string, error) {
	t, err := template.New(name).Option("missingkey=error").ParseFS(templates, "config/"+name)
	if err != nil {
		return "", fmt.Errorf("reading the template %q: %w", name, err)
	}
	var text strings.Builder
	if err := t.Execute(&text, data); err != nil {
		return "", fmt.Errorf("filling in the template %q: %w", name, err)
	}
	return text.String(), nil
}

func write(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	return nil
}
