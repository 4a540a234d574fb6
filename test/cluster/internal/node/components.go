// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

// component is one process of the node.
type component struct {
	name    string
	argv    []string
	listens []string // addresses that must be free before it starts
	ready   func(context.Context) error
}

func registry(l layout.Layout) component {
	return component{
		name:    "registry",
		argv:    []string{l.Bin("registry"), "serve", l.Config("registry.yaml")},
		listens: []string{layout.Registry},
		ready:   answers("http://"+layout.Registry+"/v2/", nil),
	}
}

// privateRegistry asks for a name and a password, for tests of pull secrets.
func privateRegistry(l layout.Layout) component {
	return component{
		name:    "private-registry",
		argv:    []string{l.Bin("registry"), "serve", l.Config("private-registry.yaml")},
		listens: []string{layout.PrivateRegistry},
		ready:   answers("http://"+layout.PrivateRegistryLogin+"@"+layout.PrivateRegistry+"/v2/", nil),
	}
}

// stages are the components in the order in which they start; those of one
// stage don't need each other.
func stages(l layout.Layout, gates map[string]bool) [][]component {
	return [][]component{
		{registry(l)},
		{privateRegistry(l), containerd(l), etcd(l)},
		{gated(apiserver(l), gates)},
		{gated(controllerManager(l), gates), gated(scheduler(l), gates), kubelet(l), proxy(l)},
	}
}

func containerd(l layout.Layout) component {
	return component{
		name:  "containerd",
		argv:  []string{l.Bin("containerd"), "--config", l.Config("containerd.toml")},
		ready: listens(l.ContainerdSocket()),
	}
}

func etcd(l layout.Layout) component {
	client, peer := "https://"+layout.Etcd, "https://"+layout.EtcdPeer
	return component{
		name: "etcd",
		argv: []string{
			l.Bin("etcd"),
			"--name=" + layout.NodeName,
			"--data-dir=" + l.Data("etcd"),
			"--listen-client-urls=" + client,
			"--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=" + layout.NodeName + "=" + peer,
			"--client-cert-auth",
			"--trusted-ca-file=" + l.PKI("ca.crt"),
			"--cert-file=" + l.PKI("etcd.crt"),
			"--key-file=" + l.PKI("etcd.key"),
			"--peer-client-cert-auth",
			"--peer-trusted-ca-file=" + l.PKI("ca.crt"),
			"--peer-cert-file=" + l.PKI("etcd.crt"),
			"--peer-key-file=" + l.PKI("etcd.key"),
			"--unsafe-no-fsync", // What is in it doesn't outlive the machine's boot.
			"--log-level=warn",
		},
		listens: []string{layout.Etcd, layout.EtcdPeer},
		ready:   answers(client+"/health", func() (*tls.Config, error) { return mutualTLS(l, "kube-apiserver-etcd-client") }),
	}
}

func apiserver(l layout.Layout) component {
	return component{
		name: "kube-apiserver",
		argv: []string{
			l.Bin("kube-apiserver"),
			"--advertise-address=" + layout.NodeIP,
			"--bind-address=" + layout.NodeIP,
			"--secure-port=6443",
			"--allow-privileged",
			"--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction",
			"--admission-control-config-file=" + l.Config("admission.yaml"),
			"--client-ca-file=" + l.PKI("ca.crt"),
			"--tls-cert-file=" + l.PKI("kube-apiserver.crt"),
			"--tls-private-key-file=" + l.PKI("kube-apiserver.key"),
			"--etcd-servers=https://" + layout.Etcd,
			"--etcd-cafile=" + l.PKI("ca.crt"),
			"--etcd-certfile=" + l.PKI("kube-apiserver-etcd-client.crt"),
			"--etcd-keyfile=" + l.PKI("kube-apiserver-etcd-client.key"),
			"--kubelet-certificate-authority=" + l.PKI("ca.crt"),
			"--kubelet-client-certificate=" + l.PKI("kube-apiserver-kubelet-client.crt"),
			"--kubelet-client-key=" + l.PKI("kube-apiserver-kubelet-client.key"),
			"--proxy-client-cert-file=" + l.PKI("front-proxy-client.crt"),
			"--proxy-client-key-file=" + l.PKI("front-proxy-client.key"),
			"--requestheader-client-ca-file=" + l.PKI("front-proxy-ca.crt"),
			"--requestheader-allowed-names=front-proxy-client",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--requestheader-group-headers=X-Remote-Group",
			"--requestheader-username-headers=X-Remote-User",
			// Nothing resolves the node's name.
			"--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + l.PKI("service-accounts.pub"),
			"--service-account-signing-key-file=" + l.PKI("service-accounts.key"),
			"--service-cluster-ip-range=" + layout.ServiceCIDR,
		},
		listens: []string{layout.APIServer},
		ready:   answers("https://"+layout.APIServer+"/readyz", func() (*tls.Config, error) { return mutualTLS(l, "admin") }),
	}
}

func controllerManager(l layout.Layout) component {
	kubeconfig := l.Config("kube-controller-manager.kubeconfig")
	return component{
		name: "kube-controller-manager",
		argv: []string{
			l.Bin("kube-controller-manager"),
			"--kubeconfig=" + kubeconfig,
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=" + layout.NodeIP,
			"--cert-dir=" + l.PKI("kube-controller-manager"),
			"--cluster-signing-cert-file=" + l.PKI("ca.crt"),
			"--cluster-signing-key-file=" + l.PKI("ca.key"),
			"--root-ca-file=" + l.PKI("ca.crt"),
			"--service-account-private-key-file=" + l.PKI("service-accounts.key"),
			"--use-service-account-credentials",
			"--flex-volume-plugin-dir=" + l.Data("volume-plugins"),
			"--leader-elect=false",
		},
		listens: []string{layout.NodeIP + ":10257"},
		ready:   answers("https://"+layout.NodeIP+":10257/healthz", anyServer),
	}
}

func scheduler(l layout.Layout) component {
	kubeconfig := l.Config("kube-scheduler.kubeconfig")
	return component{
		name: "kube-scheduler",
		argv: []string{
			l.Bin("kube-scheduler"),
			"--kubeconfig=" + kubeconfig,
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=" + layout.NodeIP,
			"--cert-dir=" + l.PKI("kube-scheduler"),
			"--leader-elect=false",
		},
		listens: []string{layout.NodeIP + ":10259"},
		ready:   answers("https://"+layout.NodeIP+":10259/healthz", anyServer),
	}
}

func kubelet(l layout.Layout) component {
	return component{
		name: "kubelet",
		argv: []string{
			l.Bin("kubelet"),
			"--config=" + l.Config("kubelet.yaml"),
			"--kubeconfig=" + l.Config("kubelet.kubeconfig"),
			"--hostname-override=" + layout.NodeName,
			"--node-ip=" + layout.NodeIP,
			"--root-dir=" + l.Data("kubelet"),
			"--cert-dir=" + l.PKI("kubelet"),
		},
		listens: []string{layout.NodeIP + ":10248", layout.NodeIP + ":10250"},
		ready:   answers("http://"+layout.NodeIP+":10248/healthz", nil),
	}
}

func proxy(l layout.Layout) component {
	return component{
		name:    "kube-proxy",
		argv:    []string{l.Bin("kube-proxy"), "--config=" + l.Config("kube-proxy.yaml")},
		listens: []string{layout.NodeIP + ":10249", layout.NodeIP + ":10256"},
		ready:   answers("http://"+layout.NodeIP+":10249/healthz", nil),
	}
}

// answers checks that a URL answers 200.
func answers(url string, config func() (*tls.Config, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		transport := &http.Transport{DisableKeepAlives: true} // no proxy
		if config != nil {
			var err error
			if transport.TLSClientConfig, err = config(); err != nil {
				return err
			}
		}
		return asks(&http.Client{Transport: transport, Timeout: 5 * time.Second}, url)(ctx)
	}
}

// asks checks that a URL answers 200 to a client.
func asks(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if body, _ := io.ReadAll(io.LimitReader(response.Body, 4096)); response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s: %s", url, response.Status, strings.TrimSpace(string(body)))
		}
		return nil
	}
}

// mutualTLS trusts our authority, and shows one of its certificates.
func mutualTLS(l layout.Layout, client string) (*tls.Config, error) {
	ca, err := os.ReadFile(l.PKI("ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	certificate, err := tls.LoadX509KeyPair(l.PKI(client+".crt"), l.PKI(client+".key"))
	if err != nil {
		return nil, err
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}, nil
}

// anyServer trusts whoever answers: these components make certificates of
// their own, and are only asked whether they are alive.
func anyServer() (*tls.Config, error) {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, nil //nolint:gosec // see above
}
