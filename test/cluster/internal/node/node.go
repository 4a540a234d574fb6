// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package node runs a Kubernetes control plane and one node, each component a
// process of this machine.
package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/test/cluster/internal/host"
	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/process"
	"github.com/entrypointer/entrypointer/test/cluster/internal/progress"
)

const (
	startLimit = 2 * time.Minute
	interval   = 100 * time.Millisecond
	// A component that takes longer to end is killed: the API server would wait
	// for the watches of pods.
	stopGrace = 3 * time.Second
)

// Node is the processes of a cluster.
type Node struct {
	layout    layout.Layout
	processes process.Set
}

// New returns the node that keeps its files in the layout's state directory.
func New(l layout.Layout) Node {
	return Node{layout: l, processes: process.Set{PIDs: l.PIDs(), Logs: l.Logs()}}
}

// Component is a component's state, for a person.
type Component struct {
	Name string
	PID  int    // 0: not running
	Log  string // path
}

// Components tells about each component.
func (n Node) Components() []Component {
	var all []Component
	for _, stage := range stages(n.layout) {
		for _, c := range stage {
			pid, _ := n.processes.Check(c.name)
			all = append(all, Component{Name: c.name, PID: pid, Log: n.processes.Log(c.name)})
		}
	}
	return all
}

// Usable tells whether what is there can be mended by starting what is
// missing: this boot's cluster, of which a part still runs.
func (n Node) Usable() bool {
	_, err := os.Stat(n.layout.Kubeconfig())
	return err == nil && len(n.processes.Running()) > 0
}

// StartRegistry starts the image registry, which builds need, too.
func (n Node) StartRegistry(ctx context.Context) error {
	if err := host.AddAddress(ctx, layout.NodeIP); err != nil {
		return err
	}
	if err := writeRegistryConfig(n.layout); err != nil {
		return err
	}
	return n.start(ctx, []component{registry(n.layout)})
}

// Start starts every component that doesn't run, and waits until all are
// ready. The pause image is the one that containerd makes pods with.
func (n Node) Start(ctx context.Context, pause string) error {
	if err := n.prepare(ctx, pause); err != nil {
		return err
	}
	for _, stage := range stages(n.layout) {
		if err := n.start(ctx, stage); err != nil {
			return err
		}
	}
	return nil
}

func (n Node) prepare(ctx context.Context, pause string) error {
	if err := host.MakeCgroup(); err != nil {
		return err
	}
	if err := host.AddRoute(ctx, layout.ServiceCIDR, layout.NodeIP); err != nil {
		return err
	}
	for _, dir := range []string{n.layout.Data(), n.layout.Run()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the state directory: %w", err)
		}
	}
	if err := writePrivateRegistryConfig(n.layout); err != nil {
		return err
	}
	if _, err := os.Stat(n.layout.Kubeconfig()); err == nil {
		return nil // The certificates in use must stay.
	}
	if err := writePKI(n.layout); err != nil {
		return err
	}
	return writeConfig(n.layout, pause)
}

// start starts the components of one stage, then waits for each.
func (n Node) start(ctx context.Context, stage []component) error {
	var started []string
	for _, c := range stage {
		if _, err := n.processes.Check(c.name); err == nil {
			continue
		} else if !errors.Is(err, process.ErrNotRunning) {
			return err
		}
		for _, address := range c.listens {
			if err := host.CheckPort(address); err != nil {
				return fmt.Errorf("starting %s: %w", c.name, err)
			}
		}
		if err := n.processes.Start(process.Command{Name: c.name, Argv: c.argv, Env: environ()}); err != nil {
			return err
		}
		started = append(started, c.name)
	}
	if len(started) == 0 {
		return n.wait(ctx, stage)
	}
	return progress.Step("starting "+strings.Join(started, ", "), func() error { return n.wait(ctx, stage) })
}

func (n Node) wait(ctx context.Context, stage []component) error {
	for _, c := range stage {
		err := progress.Wait(ctx, startLimit, interval, func(ctx context.Context) error {
			if _, err := n.processes.Check(c.name); err != nil {
				return progress.Final(err)
			}
			return c.ready(ctx)
		})
		if err != nil {
			return progress.WithLog(fmt.Errorf("waiting for %s: %w", c.name, err), n.processes.Log(c.name))
		}
	}
	return nil
}

// StopRegistry stops the registry if nothing else runs: after a build.
func (n Node) StopRegistry(ctx context.Context) error {
	if running := n.processes.Running(); len(running) != 1 || running[0] != "registry" {
		return nil
	}
	return n.Stop(ctx)
}

// Stop ends the cluster: its pods, its processes, and what they left in the
// kernel. It copes with any of that having gone before.
func (n Node) Stop(ctx context.Context) error {
	if err := n.stopComponents("kubelet", "kube-proxy", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"); err != nil {
		return err
	}
	if _, err := n.processes.Check("containerd"); err == nil {
		if err := removePods(ctx, n.layout.ContainerdSocket()); err != nil {
			progress.Say("removing pods: %v; going on to kill them", err)
		}
	}
	if err := n.stopComponents("containerd", "registry", "private-registry"); err != nil {
		return err
	}
	return n.tidy(ctx)
}

func (n Node) stopComponents(names ...string) error {
	for _, name := range names {
		if err := n.processes.Stop(name, stopGrace); err != nil {
			return err
		}
	}
	return nil
}

// tidy removes what processes leave behind. The logs stay.
func (n Node) tidy(ctx context.Context) error {
	if err := host.EndPods(n.layout.ContainerdSocket()); err != nil {
		return err
	}
	if err := host.Unmount(n.layout.State); err != nil {
		return err
	}
	if err := host.RemoveFiles(n.layout.State, n.layout.Run("containerd", "io.containerd.runtime.v2.task", "k8s.io")); err != nil {
		return err
	}
	if err := host.RemoveLinks(ctx, layout.PodCIDR); err != nil {
		return err
	}
	if err := host.RemoveRules(ctx); err != nil {
		return err
	}
	if err := host.RemoveAddress(ctx, layout.NodeIP); err != nil {
		return err
	}
	for _, dir := range []string{n.layout.Data(), n.layout.Run(), n.layout.Config(), n.layout.PKI(), n.layout.PIDs(), n.layout.Kubeconfig(), n.layout.Installed()} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("removing the cluster's state: %w", err)
		}
	}
	return nil
}
