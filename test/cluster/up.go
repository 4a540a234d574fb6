// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/test/cluster/internal/host"
	"github.com/entrypointer/entrypointer/test/cluster/internal/images"
	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/process"
	"github.com/entrypointer/entrypointer/test/cluster/internal/progress"
	"github.com/entrypointer/entrypointer/test/cluster/internal/tools"
)

// up mends the cluster that runs, or starts a new one if none does.
func (c *cluster) up(ctx context.Context, _ []string) error {
	start := time.Now()
	unlock, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.checkOther(); err != nil {
		return err
	}
	if !c.node.Usable() {
		if err := c.node.Stop(ctx); err != nil {
			return err
		}
	}
	b := newBuild(c)
	defer b.meter.Close()
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return b.compile(groupCtx) })
	group.Go(func() error { return b.start(groupCtx) })
	if err := group.Wait(); err != nil {
		return err
	}
	progress.Printf("the cluster is up, with %s, after %s; it is at KUBECONFIG=%s",
		c.describeVersions(), time.Since(start).Round(time.Second), c.layout.Kubeconfig())
	return nil
}

// build does all that up does before it starts something.
func (c *cluster) build(ctx context.Context, _ []string) error {
	unlock, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	b := newBuild(c)
	defer b.meter.Close()
	return b.compile(ctx)
}

// down ends the cluster.
func (c *cluster) down(ctx context.Context, _ []string) error {
	unlock, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.checkOther(); err != nil {
		return err
	}
	return progress.Step("ending the cluster", func() error { return c.node.Stop(ctx) })
}

// fixtures adds images to the registry of the cluster that runs.
func (c *cluster) fixtures(ctx context.Context, _ []string) error {
	unlock, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return images.PushDebian(ctx, c.layout)
}

// tools builds programs that neither the demo nor a test needs.
func (c *cluster) tools(ctx context.Context, _ []string) error {
	unlock, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.programs.Prepare(ctx); err != nil {
		return err
	}
	_, err = tools.Extras.Build(ctx, c.layout, c.programs, nil)
	return err
}

// pin writes the files of a release into the directory of the programs.
func (c *cluster) pin(ctx context.Context, args []string) error {
	packages := map[string]func(context.Context, tools.Module) ([]string, error){
		tools.KubernetesProject.Name: func(context.Context, tools.Module) ([]string, error) { return tools.Kubernetes.Packages(), nil },
	}
	for _, r := range images.Releases() {
		packages[r.Name] = func(ctx context.Context, m tools.Module) ([]string, error) {
			group, err := r.Group(ctx, m)
			return group.Packages(), err
		}
	}
	for _, p := range tools.Projects() {
		if len(args) == 2 && args[0] == p.Name {
			return tools.Pin(ctx, c.layout, programsDir(), p, args[1], packages[p.Name])
		}
	}
	return errors.New("name a project, kubernetes, tekton or knative, and a release: cluster pin kubernetes v1.37.2")
}

func (c *cluster) begin(ctx context.Context) (unlock func(), err error) {
	if err := host.CheckPlatform(); err != nil {
		return nil, err
	}
	return host.Lock(ctx, c.layout.Lock())
}

// checkOther tells whether a cluster with the other sort of nodes runs: both have the
// registry's address, and their containers are in one control group.
func (c *cluster) checkOther() error {
	other, err := layout.Default(!c.kind)
	if err != nil {
		return err
	}
	if running := (process.Set{PIDs: other.PIDs()}).Running(); len(running) > 0 {
		flags := "-kind "
		if c.kind {
			flags = ""
		}
		return fmt.Errorf("looking for another cluster: %s of the one in %q run; end it first: cluster %sdown", strings.Join(running, ", "), other.State, flags)
	}
	return nil
}
