// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/entrypointer/entrypointer/test/cluster/internal/images"
	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/node"
	"github.com/entrypointer/entrypointer/test/cluster/internal/tools"
)

// options are what the command line says.
type options struct {
	command    string
	kind       bool
	kubernetes string // "1.37"
}

// open finds out which cluster a command is about.
func open(o options) (*cluster, error) {
	l, err := layout.Default(o.kind)
	if err != nil {
		return nil, err
	}
	programs, err := tools.Open(l, programsDir())
	if err != nil {
		return nil, err
	}
	c := &cluster{layout: l, programs: programs, kubernetes: programs, kind: o.kind}
	if o.kind {
		return c, c.openKind(o)
	}
	running := ""
	if node.New(l, images.Pause, "").Usable() {
		if running, err = runningVersion(l, programs.Kubernetes()); err != nil {
			return nil, err
		}
	}
	version, err := choose(o, running, programs.Kubernetes())
	if err != nil {
		return nil, err
	}
	if version != programs.Kubernetes() {
		if err := c.openKubernetes(version); err != nil {
			return nil, err
		}
	}
	c.node = node.New(c.layout, images.Pause, version)
	return c, nil
}

func (c *cluster) openKind(o options) error {
	version := c.programs.Kubernetes()
	if o.kubernetes != "" && o.kubernetes != version {
		return fmt.Errorf("looking for Kubernetes %s: kind's nodes are made of %s only; leave out -kind", o.kubernetes, version)
	}
	release, err := c.programs.KubernetesRelease()
	if err != nil {
		return err
	}
	c.node = node.NewKind(c.layout, images.KindNode(release), images.Pause)
	return nil
}

// openKubernetes has Kubernetes be of another version.
func (c *cluster) openKubernetes(version string) (err error) {
	others, err := tools.KubernetesVersions(programsDir())
	if err != nil {
		return err
	}
	if !slices.Contains(others, version) {
		others = append(others, c.programs.Kubernetes())
		slices.Sort(others)
		return fmt.Errorf("looking for Kubernetes %s: it is none of %s; \"cluster pin\" adds another", version, strings.Join(others, ", "))
	}
	c.layout.Kubernetes = version
	c.kubernetes, err = tools.OpenKubernetes(c.layout, programsDir(), version)
	return err
}

// otherKubernetes reports whether Kubernetes has another version than programs/go.mod says.
func (c *cluster) otherKubernetes() bool { return c.layout.Kubernetes != "" }

// runningVersion is the version of Kubernetes that the cluster that runs has: ours, if it
// was started before clusters had a file that tells.
func runningVersion(l layout.Layout, ours string) (string, error) {
	text, err := os.ReadFile(l.Version())
	if errors.Is(err, fs.ErrNotExist) {
		return ours, nil
	}
	if err != nil {
		return "", fmt.Errorf("looking which Kubernetes runs: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// choose returns the version of Kubernetes that a command is about: the one that it was
// asked for, or else the one that runs, or else ours. A cluster that runs keeps its version.
func choose(o options, running, ours string) (string, error) {
	switch {
	case o.command == "build":
		running = "" // What runs isn't changed by it.
	case o.command == "down": // It ends any.
		return ours, nil
	case running != "" && o.kubernetes != "" && o.kubernetes != running:
		return "", fmt.Errorf("looking for a cluster with Kubernetes %s: the one that runs has %s; end it first (cluster down, make down), or leave out the version", o.kubernetes, running)
	}
	return cmp.Or(o.kubernetes, running, ours), nil
}
