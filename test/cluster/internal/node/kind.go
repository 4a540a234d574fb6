// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/test/cluster/internal/command"
	"github.com/entrypointer/entrypointer/test/cluster/internal/host"
	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/progress"
)

const (
	kindCluster = "entrypointer"
	// kindBridge is the network interface that connects this machine to the nodes.
	kindBridge = "kind0"
	// Three nodes take their time to start on two cores.
	commandLimit = 10 * time.Minute
	readyLimit   = 5 * time.Minute
	// The Docker daemon waits for its containers.
	dockerGrace = 20 * time.Second
)

// Kind is a control plane and two nodes that are containers: what kind makes, on a
// Docker daemon of its own.
type Kind struct {
	machine

	image, pause string
}

// NewKind returns the cluster that keeps its files in the layout's state directory. The
// image is that of its nodes, and the pause image the one that their containerd makes
// pods with.
func NewKind(l layout.Layout, image, pause string) Kind { return Kind{newMachine(l), image, pause} }

func (k Kind) stages() [][]component {
	return [][]component{
		{registry(k.layout)},
		{privateRegistry(k.layout), dockerContainerd(k.layout)},
		{docker(k.layout)},
	}
}

// Components tells about each process of this machine; those of the nodes are in their
// containers.
func (k Kind) Components() []Component { return k.components(k.stages()) }

// units are the components of a node that systemd starts.
var units = []string{"kubelet", "containerd"}

// Journal is what a unit of systemd has logged on each node.
func (k Kind) Journal(ctx context.Context, component string) (string, error) {
	if !slices.Contains(units, component) {
		return "", nil
	}
	names, err := k.run(ctx, "", "kind", "get", "nodes", "--name="+kindCluster)
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, name := range strings.Fields(string(names)) {
		journal, err := k.run(ctx, "", "docker", "exec", name, "journalctl", "--no-pager", "--unit="+component)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&all, "==> %s on %s <==\n%s", component, name, journal)
	}
	return all.String(), nil
}

// Start starts what doesn't run, and waits until the nodes are ready.
func (k Kind) Start(ctx context.Context) error {
	if err := k.makeState(); err != nil {
		return err
	}
	if err := k.writeConfig(); err != nil {
		return err
	}
	if err := k.startAll(ctx, k.stages()); err != nil {
		return err
	}
	if err := k.create(ctx); err != nil {
		return err
	}
	return progress.Step("connecting the nodes", func() error { return k.connect(ctx) })
}

func (k Kind) writeConfig() error {
	if err := writePrivateRegistryConfig(k.layout); err != nil {
		return err
	}
	s := newSettings(k.layout, k.pause)
	for name, path := range map[string]string{
		"docker-containerd.toml": k.layout.Config("docker-containerd.toml"),
		"kind.yaml":              k.layout.Config("kind.yaml"),
		"docker.json":            k.layout.Config("docker.json"),
	} {
		if err := render(name, path, s); err != nil {
			return err
		}
	}
	return nil
}

// create has kind make the nodes, unless they are there.
func (k Kind) create(ctx context.Context) error {
	clusters, err := k.run(ctx, "", "kind", "get", "clusters", "--quiet")
	if err != nil {
		return err
	}
	if slices.Contains(strings.Fields(string(clusters)), kindCluster) {
		return k.startNodes(ctx)
	}
	return progress.Step("creating the nodes with kind", func() error {
		// kind takes the network of this name for its own.
		if _, err := k.run(ctx, "", "docker", "network", "inspect", "kind"); err != nil {
			if _, err := k.run(ctx, "", "docker", "network", "create", "--subnet="+layout.KindCIDR,
				"--opt=com.docker.network.bridge.name="+kindBridge, "kind"); err != nil {
				return err
			}
		}
		_, err := k.run(ctx, "", "kind", "create", "cluster", "--name="+kindCluster, "--image="+k.image,
			"--config="+k.layout.Config("kind.yaml"), "--kubeconfig="+k.layout.Kubeconfig(), "--retain", "--verbosity=1")
		return err
	})
}

// startNodes starts the nodes that have ended.
func (k Kind) startNodes(ctx context.Context) error {
	nodes, err := k.run(ctx, "", "kind", "get", "nodes", "--name="+kindCluster)
	if err != nil {
		return err
	}
	_, err = k.run(ctx, "", "docker", append([]string{"start"}, strings.Fields(string(nodes))...)...)
	return err
}

// kindNode is what is known of a node.
type kindNode struct {
	name    string
	address string
	pods    string // the range of its pods' addresses
}

// connect gives each node the network of its pods, and the ways to those of others: what
// kindnet does, whose image is none of those that are made here.
func (k Kind) connect(ctx context.Context) error {
	var nodes []kindNode
	err := progress.Wait(ctx, readyLimit, interval, func(ctx context.Context) (err error) {
		nodes, err = k.nodes(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("waiting for the ranges of the pods' addresses: %w", err)
	}
	for _, n := range nodes {
		if err := k.connectPods(ctx, n, nodes); err != nil {
			return err
		}
	}
	_, err = k.run(ctx, "", "kubectl", "wait", "--for=condition=Ready", "nodes", "--all", "--timeout="+readyLimit.String())
	return err
}

// nodes are all nodes; an error tells of one that has no range of addresses yet.
func (k Kind) nodes(ctx context.Context) ([]kindNode, error) {
	out, err := k.run(ctx, "", "kubectl", "get", "nodes", "--output=json")
	if err != nil {
		return nil, err
	}
	return parseNodes(out)
}

func parseNodes(out []byte) ([]kindNode, error) {
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ PodCIDR string }
			Status   struct {
				Addresses []struct{ Type, Address string }
			}
		}
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("reading what kubectl says about nodes: %w", err)
	}
	var nodes []kindNode
	for _, item := range list.Items {
		n := kindNode{name: item.Metadata.Name, pods: item.Spec.PodCIDR}
		for _, a := range item.Status.Addresses {
			if a.Type == "InternalIP" && net.ParseIP(a.Address) != nil {
				n.address = a.Address
			}
		}
		if n.pods == "" || n.address == "" {
			return nil, fmt.Errorf("node %q has the address %q, and its pods are in %q", n.name, n.address, n.pods)
		}
		nodes = append(nodes, n)
	}
	if len(nodes) == 0 {
		return nil, errors.New("there is no node")
	}
	return nodes, nil
}

// connectPods writes the configuration of CNI, adds routes to the pods of other nodes,
// and has what leaves the pods' network come from the node.
func (k Kind) connectPods(ctx context.Context, n kindNode, all []kindNode) error {
	conflist, err := rendered("kind-cni.conflist", n.pods)
	if err != nil {
		return err
	}
	script := []string{
		"mkdir -p /etc/cni/net.d",
		"cat >/etc/cni/net.d/10-pods.conflist",
		"rule='POSTROUTING -s " + layout.KindPodCIDR + " ! -d " + layout.KindPodCIDR + " -j MASQUERADE'",
		"iptables -t nat -C $rule 2>/dev/null || iptables -t nat -A $rule",
	}
	for _, other := range all {
		if other.name != n.name {
			script = append(script, "ip route replace "+other.pods+" via "+other.address)
		}
	}
	_, err = k.run(ctx, conflist, "docker", "exec", "--interactive", n.name, "sh", "-ec", strings.Join(script, "\n"))
	return err
}

// Stop ends the cluster: its nodes, its processes, and what they left in the kernel. It
// copes with any of that having gone before.
func (k Kind) Stop(ctx context.Context) error {
	if _, err := k.processes.Check("dockerd"); err == nil {
		if _, err := k.run(ctx, "", "kind", "delete", "cluster", "--name="+kindCluster, "--kubeconfig="+k.layout.Kubeconfig()); err != nil {
			progress.Printf("deleting the nodes: %v; going on to kill them", err)
		}
	}
	if err := k.stopComponents(dockerGrace, "dockerd", "containerd"); err != nil {
		return err
	}
	if err := k.stopComponents(stopGrace, "registry", "private-registry"); err != nil {
		return err
	}
	if err := host.EndPods(k.layout.ContainerdSocket()); err != nil {
		return err
	}
	if err := host.RemoveFiles(k.layout.State, k.layout.Run("containerd", "io.containerd.runtime.v2.task", "moby")); err != nil {
		return err
	}
	return k.tidy(ctx, layout.KindCIDR)
}

// run runs a program with the cluster's settings, and returns what it prints.
func (k Kind) run(ctx context.Context, stdin, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	return command.Run(ctx, k.layout, command.Program{
		Name: program, Args: args, Stdin: stdin,
		Env: []string{"DOCKER_HOST=unix://" + dockerSocket(k.layout), "KIND_EXPERIMENTAL_PROVIDER=docker"},
	})
}
