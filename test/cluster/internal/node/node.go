// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package node runs the nodes of a cluster: a control plane and one node whose
// components are processes of this machine, or several nodes that are containers and
// that kind makes.
package node

import (
	"context"
	"os"

	"github.com/entrypointer/entrypointer/test/cluster/internal/host"
	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/progress"
)

// Node is a control plane and a node, each component a process of this machine.
type Node struct {
	machine

	pause      string
	kubernetes string
}

// New returns the node that keeps its files in the layout's state directory. The pause
// image is the one that containerd makes pods with. Kubernetes is a version: "1.36".
func New(l layout.Layout, pause, kubernetes string) Node {
	return Node{newMachine(l), pause, kubernetes}
}

// Components tells about each component.
func (n Node) Components() []Component { return n.components(n.stages()) }

func (n Node) stages() [][]component { return stages(n.layout, gates(n.kubernetes)) }

// Journal is empty: each component is a process of this machine, and logs there.
func (n Node) Journal(context.Context, string) (string, error) { return "", nil }

// Start starts every component that doesn't run, and waits until all are ready.
func (n Node) Start(ctx context.Context) error {
	if err := n.prepare(ctx); err != nil {
		return err
	}
	return n.startAll(ctx, n.stages())
}

func (n Node) prepare(ctx context.Context) error {
	if err := n.makeState(); err != nil {
		return err
	}
	if err := host.AddRoute(ctx, layout.ServiceCIDR, layout.NodeIP); err != nil {
		return err
	}
	if err := writePrivateRegistryConfig(n.layout); err != nil {
		return err
	}
	if err := writeHosts(n.layout); err != nil {
		return err
	}
	if _, err := os.Stat(n.layout.Kubeconfig()); err == nil {
		return nil // The certificates in use must stay.
	}
	if err := writePKI(n.layout); err != nil {
		return err
	}
	return writeConfig(n.layout, n.pause, n.kubernetes)
}

// Stop ends the cluster: its pods, its processes, and what they left in the
// kernel. It copes with any of that having gone before.
func (n Node) Stop(ctx context.Context) error {
	if err := n.stopComponents(stopGrace, "kubelet", "kube-proxy", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"); err != nil {
		return err
	}
	if _, err := n.processes.Check("containerd"); err == nil {
		if err := removePods(ctx, n.layout.ContainerdSocket()); err != nil {
			progress.Printf("removing pods: %v; going on to kill them", err)
		}
	}
	if err := n.stopComponents(stopGrace, "containerd", "registry", "private-registry"); err != nil {
		return err
	}
	if err := host.EndPods(n.layout.ContainerdSocket()); err != nil {
		return err
	}
	if err := host.RemoveFiles(n.layout.State, n.layout.Run("containerd", "io.containerd.runtime.v2.task", "k8s.io")); err != nil {
		return err
	}
	if err := host.RemoveRules(ctx); err != nil {
		return err
	}
	return n.tidy(ctx, layout.PodCIDR)
}
