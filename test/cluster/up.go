// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/test/cluster/internal/host"
	"github.com/entrypointer/entrypointer/test/cluster/internal/images"
	"github.com/entrypointer/entrypointer/test/cluster/internal/install"
	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/node"
	"github.com/entrypointer/entrypointer/test/cluster/internal/progress"
	"github.com/entrypointer/entrypointer/test/cluster/internal/tools"
)

// up mends the cluster that runs, or starts a new one if none does.
func up(ctx context.Context, l layout.Layout, _ []string) error {
	start := time.Now()
	n, unlock, err := begin(ctx, l)
	if err != nil {
		return err
	}
	defer unlock()
	if !n.Usable() {
		if err := n.Stop(ctx); err != nil {
			return err
		}
	}
	releases, err := buildAll(ctx, l, n)
	if err != nil {
		return err
	}
	if err := n.Start(ctx, images.Pause); err != nil {
		return err
	}
	if err := install.Install(ctx, l, releases...); err != nil {
		return err
	}
	progress.Say("the cluster is up, after %s; it is at KUBECONFIG=%s", time.Since(start).Round(time.Second), l.Kubeconfig())
	return nil
}

// down ends the cluster.
func down(ctx context.Context, l layout.Layout, _ []string) error {
	n, unlock, err := begin(ctx, l)
	if err != nil {
		return err
	}
	defer unlock()
	return progress.Step("ending the cluster", func() error { return n.Stop(ctx) })
}

// build does all that up does before it starts something.
func build(ctx context.Context, l layout.Layout, _ []string) error {
	n, unlock, err := begin(ctx, l)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := buildAll(ctx, l, n); err != nil {
		return err
	}
	return n.StopRegistry(ctx)
}

func begin(ctx context.Context, l layout.Layout) (node.Node, func(), error) {
	if err := host.CheckPlatform(); err != nil {
		return node.Node{}, nil, err
	}
	unlock, err := host.Lock(ctx, l.Lock())
	return node.New(l), unlock, err
}

// buildAll builds what isn't in the cache, and returns where Tekton's and
// Knative's YAML is. Two builds at a time: while one downloads or links, the
// other keeps the processors busy.
func buildAll(ctx context.Context, l layout.Layout, n node.Node) (releases []string, err error) {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	group.Go(func() error { return tools.Kubernetes.Build(groupCtx, l) })
	group.Go(func() (err error) {
		releases, err = buildReleases(groupCtx, l, n)
		return err
	})
	for _, tool := range []tools.Tool{tools.Traefik, tools.Containerd, tools.CoreDNS, tools.Crane} {
		group.Go(func() error { return tool.Build(groupCtx, l) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return releases, images.Push(ctx, images.Programs(l))
}

// buildReleases builds what needs a registry, after it.
func buildReleases(ctx context.Context, l layout.Layout, n node.Node) ([]string, error) {
	if err := host.InstallPackages(ctx, l.BuildLogs("packages.log")); err != nil {
		return nil, err
	}
	for _, tool := range []tools.Tool{tools.Registry, tools.Ko} {
		if err := tool.Build(ctx, l); err != nil {
			return nil, err
		}
	}
	if err := n.StartRegistry(ctx); err != nil {
		return nil, err
	}
	base, err := images.Base()
	if err != nil {
		return nil, err
	}
	if err := images.Push(ctx, base); err != nil {
		return nil, err
	}
	if err := images.PushDebian(ctx, l); err != nil {
		return nil, err
	}
	var paths []string
	for _, release := range []images.Release{images.Tekton, images.Knative} {
		path, err := release.Resolve(ctx, l)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}
