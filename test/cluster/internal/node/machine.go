// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/test/cluster/internal/command"
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

// machine starts and ends a cluster's processes on this machine.
type machine struct {
	layout    layout.Layout
	processes process.Set
}

func newMachine(l layout.Layout) machine {
	return machine{layout: l, processes: process.Set{PIDs: l.PIDs(), Logs: l.Logs()}}
}

// Component is a component's state, for a person.
type Component struct {
	Name string
	PID  int    // 0: not running
	Log  string // path
}

// components tells about the components of these stages.
func (m machine) components(stages [][]component) []Component {
	var all []Component
	for _, stage := range stages {
		for _, c := range stage {
			pid, _ := m.processes.Check(c.name)
			all = append(all, Component{Name: c.name, PID: pid, Log: m.processes.Log(c.name)})
		}
	}
	return all
}

// Usable tells whether what is there can be mended by starting what is
// missing: this boot's cluster, of which a part still runs.
func (m machine) Usable() bool {
	_, err := os.Stat(m.layout.Kubeconfig())
	return err == nil && len(m.processes.Running()) > 0
}

// StartRegistry starts the image registry, which builds need, too.
func (m machine) StartRegistry(ctx context.Context) error {
	if err := host.AddAddress(ctx, layout.NodeIP); err != nil {
		return err
	}
	if err := writeRegistryConfig(m.layout); err != nil {
		return err
	}
	return m.start(ctx, []component{registry(m.layout)})
}

// startAll starts the components that don't run, and waits until all are ready.
func (m machine) startAll(ctx context.Context, stages [][]component) error {
	for _, stage := range stages {
		if err := m.start(ctx, stage); err != nil {
			return err
		}
	}
	return nil
}

// start starts the components of one stage, then waits for each.
func (m machine) start(ctx context.Context, stage []component) error {
	var started []string
	for _, c := range stage {
		if _, err := m.processes.Check(c.name); err == nil {
			continue
		} else if !errors.Is(err, process.ErrNotRunning) {
			return err
		}
		for _, address := range c.listens {
			if err := host.CheckPort(address); err != nil {
				return fmt.Errorf("starting %s: %w", c.name, err)
			}
		}
		if err := m.processes.Start(process.Command{Name: c.name, Argv: c.argv, Env: command.Environ()}); err != nil {
			return err
		}
		started = append(started, c.name)
	}
	if len(started) == 0 {
		return m.wait(ctx, stage)
	}
	return progress.Step("starting "+strings.Join(started, ", "), func() error { return m.wait(ctx, stage) })
}

func (m machine) wait(ctx context.Context, stage []component) error {
	for _, c := range stage {
		err := progress.Wait(ctx, startLimit, interval, func(ctx context.Context) error {
			if _, err := m.processes.Check(c.name); err != nil {
				return progress.Final(err)
			}
			return c.ready(ctx)
		})
		if err != nil {
			return progress.WithLog(fmt.Errorf("waiting for %s: %w", c.name, err), m.processes.Log(c.name))
		}
	}
	return nil
}

func (m machine) stopComponents(grace time.Duration, names ...string) error {
	for _, name := range names {
		if err := m.processes.Stop(name, grace); err != nil {
			return err
		}
	}
	return nil
}

// makeState makes the directories, and the control group, that components write to.
func (m machine) makeState() error {
	for _, dir := range []string{m.layout.Data(), m.layout.Run()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the state directory: %w", err)
		}
	}
	return host.MakeCgroup()
}

// tidy removes what components leave behind: mounts, the network interfaces that have
// an address in that range, and files. The logs stay.
func (m machine) tidy(ctx context.Context, cidr string) error {
	if err := host.Unmount(m.layout.State); err != nil {
		return err
	}
	if err := host.RemoveLinks(ctx, cidr); err != nil {
		return err
	}
	if err := host.RemoveAddress(ctx, layout.NodeIP); err != nil {
		return err
	}
	for _, dir := range []string{m.layout.Data(), m.layout.Run(), m.layout.Config(), m.layout.PKI(), m.layout.PIDs(), m.layout.Kubeconfig(), m.layout.Installed(), m.layout.Versions()} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("removing the cluster's state: %w", err)
		}
	}
	return nil
}
