// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/entrypointer/entrypointer/test/cluster/internal/host"
	"github.com/entrypointer/entrypointer/test/cluster/internal/images"
	"github.com/entrypointer/entrypointer/test/cluster/internal/install"
	"github.com/entrypointer/entrypointer/test/cluster/internal/progress"
	"github.com/entrypointer/entrypointer/test/cluster/internal/tools"
)

// build is what takes long the first time, in two lanes. One compiles, a group
// of programs after the other, because one run of the go command keeps all
// processors busy; the other starts what is compiled.
type build struct {
	*cluster
	meter *progress.Meter
	parts map[string]*progress.Part
	// What the one lane has for the other.
	node     chan struct{} // closed when its programs are there
	releases chan release
}

// release is a release and the directory of its programs.
type release struct {
	images.Release
	programs string
}

// nodeModules is about how many modules the node's programs are made of.
const nodeModules = 260

// parts are the parts of the work, and what they took on two processors. The
// units are modules where they are downloaded, and packages where they are
// compiled.
var parts = []struct {
	name  string
	units int
	unit  time.Duration
}{
	{"modules", nodeModules, 230 * time.Millisecond},
	{tools.Kubernetes.Name, 1600, 150 * time.Millisecond},
	{tools.Beside.Name, 2000, 150 * time.Millisecond},
	{tools.Node.Name, 3600, 150 * time.Millisecond},
	{tools.Provisioner.Name, 10, 300 * time.Millisecond},
	{tools.Kind.Name, 60, 150 * time.Millisecond},
	{images.Tekton.Name, 600, 130 * time.Millisecond},
	{images.Knative.Name, 200, 130 * time.Millisecond},
	{tools.Ko.Name, 320, 90 * time.Millisecond},
	{"packages", 1, 20 * time.Second},
	{"start", 1, 20 * time.Second},
	{"install", 1, 40 * time.Second},
}

func newBuild(c *cluster) *build {
	b := &build{
		cluster: c, meter: progress.NewMeter(c.layout.Durations()), parts: map[string]*progress.Part{},
		node: make(chan struct{}), releases: make(chan release, len(images.Releases())),
	}
	skipped := []string{tools.Kubernetes.Name, tools.Beside.Name}
	if c.otherKubernetes() {
		skipped = []string{tools.Node.Name}
	}
	if !c.kind {
		skipped = append(skipped, tools.Kind.Name)
	}
	for _, p := range parts {
		if !slices.Contains(skipped, p.name) {
			b.parts[p.name] = b.meter.Part(p.name, p.units, p.unit)
		}
	}
	return b
}

// compile compiles what isn't in the cache, in the order in which it is needed.
func (b *build) compile(ctx context.Context) error {
	if err := b.prepare(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return b.downloadRest(ctx) })
	group.Go(func() error {
		for _, g := range b.groups() {
			if _, err := g.Build(ctx, b.layout, g.module, b.parts[g.Name]); err != nil {
				return err
			}
		}
		close(b.node)
		for _, r := range images.Releases() {
			group, err := r.Group(ctx, b.of(r.Project))
			if err != nil {
				return err
			}
			programs, err := group.Build(ctx, b.layout, b.of(r.Project), b.parts[r.Name])
			if err != nil {
				return err
			}
			b.releases <- release{r, programs}
		}
		_, err := tools.Ko.Build(ctx, b.layout, b.programs, b.parts[tools.Ko.Name])
		return err
	})
	return group.Wait()
}

// group is a group of programs and the module that they are built of.
type group struct {
	tools.Group
	module tools.Module
}

// groups are the programs that the nodes need.
func (b *build) groups() []group {
	groups := []group{{tools.Node, b.programs}}
	if b.otherKubernetes() {
		groups = []group{{tools.Kubernetes, b.of(tools.KubernetesProject)}, {tools.Beside, b.programs}}
	}
	groups = append(groups, group{tools.Provisioner, b.programs})
	if b.kind {
		groups = append(groups, group{tools.Kind, b.programs})
	}
	return groups
}

// prepare sees to the space and the modules that the first group takes.
func (b *build) prepare(ctx context.Context) error {
	modules := b.parts["modules"]
	defer modules.Done()
	first := b.groups()[0]
	built := first.Built(b.layout, first.module) && tools.Ko.Built(b.layout, b.programs)
	if !built {
		if err := b.programs.CheckSpace(ctx); err != nil {
			return err
		}
		modules.Begin(nodeModules)
	}
	if err := b.programs.Prepare(ctx); err != nil {
		return err
	}
	for _, other := range b.others {
		if err := other.Prepare(ctx); err != nil {
			return err
		}
	}
	if built {
		return nil
	}
	return progress.Step("downloading modules", func() error {
		return first.module.Download(ctx, first.Group, b.layout.BuildLogs("modules.log"), modules)
	})
}

// downloadRest downloads what the other groups take while the first is compiled.
func (b *build) downloadRest(ctx context.Context) error {
	if tools.Ko.Built(b.layout, b.programs) {
		return nil
	}
	if b.otherKubernetes() {
		if err := b.programs.Download(ctx, tools.Beside, b.layout.BuildLogs("modules-beside.log"), nil); err != nil {
			return err
		}
	}
	for _, r := range images.Releases() {
		group, err := r.Group(ctx, b.of(r.Project))
		if err != nil {
			return err
		}
		if err := b.of(r.Project).Download(ctx, group, b.layout.BuildLogs("modules-"+r.Name+".log"), nil); err != nil {
			return err
		}
	}
	return b.programs.Download(ctx, tools.Ko, b.layout.BuildLogs("modules-ko.log"), nil)
}

// start starts and installs everything, as soon as it is compiled.
func (b *build) start(ctx context.Context) error {
	if err := b.step("packages", "installing Debian's packages", func() error { return b.startRegistry(ctx) }); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-b.node:
	}
	if err := b.step("start", "starting the node", func() error { return b.startNode(ctx) }); err != nil {
		return err
	}
	var manifests []string
	for range images.Releases() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case r := <-b.releases:
			path, err := r.Resolve(ctx, b.layout, b.of(r.Project), r.programs)
			if err != nil {
				return err
			}
			manifests = append(manifests, path)
		}
	}
	return b.step("install", "waiting for Tekton, Knative and the ingress", func() error {
		return install.Install(ctx, b.layout, manifests...)
	})
}

func (b *build) startRegistry(ctx context.Context) error {
	packages := host.Packages
	if b.kind {
		packages = append(slices.Clone(packages), host.KindPackages...)
	}
	if err := host.InstallPackages(ctx, b.layout.BuildLogs("packages.log"), packages); err != nil {
		return err
	}
	if err := host.LinkRegistry(ctx, b.layout.Tools("docker-registry"), b.layout.Bin("registry"), b.layout.BuildLogs("registry.log")); err != nil {
		return err
	}
	if err := b.cluster.node.StartRegistry(ctx); err != nil {
		return err
	}
	base, err := images.Base()
	if err != nil {
		return err
	}
	return images.Push(ctx, base)
}

func (b *build) startNode(ctx context.Context) error {
	if b.kind {
		if err := b.pushKind(ctx); err != nil {
			return err
		}
	}
	if err := b.writeVersions(); err != nil {
		return err
	}
	if err := b.cluster.node.Start(ctx); err != nil {
		return err
	}
	return images.Push(ctx, images.Programs(b.layout))
}

// pushKind pushes the images that kind's nodes are made of.
func (b *build) pushKind(ctx context.Context) error {
	sources, err := b.programs.ModuleDir(ctx, tools.KindModule)
	if err != nil {
		return err
	}
	version, err := b.programs.Version(tools.KubernetesProject.Module)
	if err != nil {
		return err
	}
	return images.PushKind(ctx, b.layout, sources, version)
}

// step does a part of the work that can't tell how far it is.
func (b *build) step(name, what string, do func() error) error {
	part := b.parts[name]
	part.Begin(1)
	part.SetStatus(what)
	if err := do(); err != nil {
		return err
	}
	part.Done()
	return nil
}
