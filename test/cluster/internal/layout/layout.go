// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package layout knows where everything is: directories, addresses and ports.
//
// There are two directories. The cache holds what takes long to make (binaries,
// images, manifests), each under its version, and any number of checkouts share
// it. The state holds what the running cluster writes, and is deleted with it.
package layout

import (
	"fmt"
	"os"
	"path/filepath"
)

// The cluster's addresses. The node's is an alias on the loopback interface:
// it needs no network card, pods can reach it, and since it is private (RFC
// 1918), clients of the image registry speak plain HTTP by themselves.
const (
	NodeName = "node"
	NodeIP   = "10.250.0.1"

	Registry  = NodeIP + ":5000"
	APIServer = NodeIP + ":6443"
	Etcd      = NodeIP + ":2379"
	EtcdPeer  = NodeIP + ":2380"

	// PrivateRegistry serves nobody without PrivateRegistryLogin, a user's name
	// and password, which internal/node/config/htpasswd knows by its hash.
	PrivateRegistry      = NodeIP + ":5001"
	PrivateRegistryLogin = "e2e:let-me-in"

	PodCIDR = "10.244.0.0/22"
	// KindPodCIDR has a range for each of kind's nodes, KindCIDR those nodes' addresses.
	KindPodCIDR  = "10.244.0.0/16"
	KindCIDR     = "10.250.1.0/24"
	ServiceCIDR  = "10.96.0.0/16"
	APIServiceIP = "10.96.0.1"
	DNSServiceIP = "10.96.0.10"

	// IngressNodePort is the port at which each node has the ingress.
	IngressNodePort = 31080

	// Domain is the one that Knative Services get their URLs in:
	// http://<service>.<namespace>.example.test, answered at NodeIP.
	Domain = "example.test"
)

// NoProxy are the addresses that a proxy must never be asked for.
const NoProxy = "localhost,127.0.0.1,.svc,.cluster.local,." + Domain + "," + NodeIP + "," + KindCIDR + "," + KindPodCIDR + "," + ServiceCIDR

// Layout is where a cluster keeps its files.
type Layout struct {
	Cache string
	State string
	// Kubernetes is the version of Kubernetes whose programs Bin has, "" for that of
	// programs/go.mod.
	Kubernetes string
}

// The state directories; their paths are short enough for Unix sockets (108 bytes).
const (
	state     = "/var/lib/entrypointer-cluster"
	kindState = "/var/lib/entrypointer-kind"
)

// Default is $ENTRYPOINTER_CACHE, or a directory in the user's cache, and the state
// directory of the cluster whose nodes are processes, or of the one whose nodes kind makes.
func Default(kind bool) (Layout, error) {
	cache := os.Getenv("ENTRYPOINTER_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return Layout{}, fmt.Errorf("finding the cache directory: %w; set ENTRYPOINTER_CACHE to a directory", err)
		}
		cache = filepath.Join(user, "entrypointer")
	}
	cache, err := filepath.Abs(cache)
	if err != nil {
		return Layout{}, fmt.Errorf("finding the cache directory %q: %w", cache, err)
	}
	if kind {
		return Layout{Cache: cache, State: kindState}, nil
	}
	return Layout{Cache: cache, State: state}, nil
}

// Bin is where the current version of each tool is linked from. Each version of
// Kubernetes has one: what runs isn't changed by building another.
func (l Layout) Bin(tool ...string) string {
	if l.Kubernetes != "" {
		return l.cache("bin-"+l.Kubernetes, tool...)
	}
	return l.cache("bin", tool...)
}

// Tools holds the built tools, each in a directory that names its version.
func (l Layout) Tools(tool ...string) string { return l.cache("tools", tool...) }

// Source holds writable copies of modules that can't be built in place.
func (l Layout) Source(module ...string) string { return l.cache("src", module...) }

// Temporary is for what compilers write in between.
func (l Layout) Temporary(name ...string) string { return l.cache("tmp", name...) }

// Durations remembers what took how long.
func (l Layout) Durations() string { return l.cache("durations.json") }

// RegistryData is what the image registry stores.
func (l Layout) RegistryData() string { return l.cache("registry") }

// Layers holds layers of images that take long to make.
func (l Layout) Layers(name ...string) string { return l.cache("layers", name...) }

// Packages is where packages of the host's distribution are downloaded to.
func (l Layout) Packages(name ...string) string { return l.cache("packages", name...) }

// Manifests holds Tekton's and Knative's YAML with their images resolved.
func (l Layout) Manifests(name ...string) string { return l.cache("manifests", name...) }

// BuildLogs holds one log for each thing that was built.
func (l Layout) BuildLogs(name ...string) string { return l.cache("logs", name...) }

// Kubeconfig is the administrator's.
func (l Layout) Kubeconfig() string { return filepath.Join(l.State, "kubeconfig") }

// Versions holds a file for each project that clusters have in several versions, Kubernetes
// for instance, that says which one the cluster has.
func (l Layout) Versions(project ...string) string { return l.state("versions", project...) }

// Logs holds one log for each component.
func (l Layout) Logs(name ...string) string { return l.state("logs", name...) }

// PIDs holds one file for each process that was started.
func (l Layout) PIDs() string { return l.state("pids") }

// PKI holds certificates and keys.
func (l Layout) PKI(name ...string) string { return l.state("pki", name...) }

// Config holds the components' configuration files.
func (l Layout) Config(name ...string) string { return l.state("config", name...) }

// Data is where a component keeps what it stores.
func (l Layout) Data(component ...string) string { return l.state("data", component...) }

// Run holds sockets, and what containerd mounts.
func (l Layout) Run(name ...string) string { return l.state("run", name...) }

// ContainerdSocket is where containerd listens.
func (l Layout) ContainerdSocket() string { return l.Run("containerd.sock") }

// Installed remembers what was installed in the cluster.
func (l Layout) Installed() string { return l.state("installed") }

// Lock is held by whoever starts or ends a cluster, or writes to the cache.
func (l Layout) Lock() string { return state + ".lock" }

func (l Layout) cache(dir string, rest ...string) string {
	return filepath.Join(append([]string{l.Cache, dir}, rest...)...)
}

func (l Layout) state(dir string, rest ...string) string {
	return filepath.Join(append([]string{l.State, dir}, rest...)...)
}
