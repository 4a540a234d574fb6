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
	command  string
	kind     bool
	versions map[string]string // "1.37", by the names of projects
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
	c := &cluster{layout: l, programs: programs, others: map[string]tools.Module{}, kind: o.kind}
	release, err := programs.Version(tools.KubernetesProject.Module)
	if err != nil {
		return nil, err
	}
	asked, ours := o.versions[tools.KubernetesProject.Name], programs.VersionOf(tools.KubernetesProject)
	if o.kind && asked != "" && asked != ours {
		return nil, fmt.Errorf("looking for Kubernetes %s: kind's nodes are made of %s only; leave out -kind", asked, ours)
	}
	if o.kind {
		c.node = node.NewKind(l, images.KindNode(release), images.Pause)
	} else {
		c.node = node.New(l, images.Pause, "")
	}
	runs := c.node.Usable()
	for _, p := range tools.Projects() {
		if err := c.chooseVersion(o, p, runs); err != nil {
			return nil, err
		}
	}
	if !o.kind {
		c.node = node.New(c.layout, images.Pause, c.of(tools.KubernetesProject).VersionOf(tools.KubernetesProject))
	}
	return c, nil
}

// chooseVersion decides which version of a project a command is about.
func (c *cluster) chooseVersion(o options, p tools.Project, runs bool) error {
	running, ours := "", c.programs.VersionOf(p)
	if runs {
		var err error
		if running, err = runningVersion(c.layout, p, ours); err != nil {
			return err
		}
	}
	version, err := choose(o.command, p, o.versions[p.Name], running, ours)
	if err != nil || version == ours {
		return err
	}
	return c.openVersion(p, version)
}

// openVersion has a project be of another version.
func (c *cluster) openVersion(p tools.Project, version string) (err error) {
	others, err := tools.Versions(programsDir(), p)
	if err != nil {
		return err
	}
	if !slices.Contains(others, version) {
		others = append(others, c.programs.VersionOf(p))
		slices.Sort(others)
		return fmt.Errorf("looking for %s %s: it is none of %s; \"cluster pin\" adds another", p.Title, version, strings.Join(others, ", "))
	}
	if p == tools.KubernetesProject {
		c.layout.Kubernetes = version
	}
	c.others[p.Name], err = tools.OpenVersion(c.layout, programsDir(), p, version)
	return err
}

// of is of which modules a project is built.
func (c *cluster) of(p tools.Project) tools.Module {
	if other, is := c.others[p.Name]; is {
		return other
	}
	return c.programs
}

// otherKubernetes reports whether Kubernetes has another version than programs/go.mod says.
func (c *cluster) otherKubernetes() bool { return c.layout.Kubernetes != "" }

// describeVersions names the versions of the projects.
func (c *cluster) describeVersions() string {
	var versions []string
	for _, p := range tools.Projects() {
		versions = append(versions, p.Title+" "+c.of(p).VersionOf(p))
	}
	return strings.Join(versions, ", ")
}

// writeVersions notes the versions that a cluster is started with.
func (c *cluster) writeVersions() error {
	if err := os.MkdirAll(c.layout.Versions(), 0o755); err != nil {
		return err
	}
	for _, p := range tools.Projects() {
		if err := os.WriteFile(c.layout.Versions(p.Name), []byte(c.of(p).VersionOf(p)+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// runningVersion is the version of a project that the cluster that runs has: ours, if it was
// started before clusters had a file that tells.
func runningVersion(l layout.Layout, p tools.Project, ours string) (string, error) {
	text, err := os.ReadFile(l.Versions(p.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return ours, nil
	}
	if err != nil {
		return "", fmt.Errorf("looking which %s runs: %w", p.Title, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// choose returns the version of a project that a command is about: the one that it was asked
// for, or else the one that runs, or else ours. A cluster that runs keeps its version.
func choose(command string, p tools.Project, asked, running, ours string) (string, error) {
	switch {
	case command == "build":
		running = "" // What runs isn't changed by it.
	case command == "down": // It ends any.
		return ours, nil
	case running != "" && asked != "" && asked != running:
		return "", fmt.Errorf("looking for a cluster with %s %s: the one that runs has %s; end it first (cluster down, make down), or leave out the version", p.Title, asked, running)
	}
	return cmp.Or(asked, running, ours), nil
}
