// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package tools builds, from their modules, the programs that a cluster needs,
// once for each version.
package tools

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/progress"
)

// Tool is a module's programs at one version.
type Tool struct {
	Name    string
	Version string
	// Binaries are the programs' names. Others may be linked to the first.
	Binaries []string
	// build leaves the binaries in a directory.
	build func(ctx context.Context, g golang, t Tool, into string) error
	// key tells builds of one version apart, should we build it differently.
	key string
}

// The tools. Their versions go together: raise one, and test.
var (
	Kubernetes = Tool{
		Name:    "kubernetes",
		Version: "v1.35.4", // kubernetes/go.mod says the same, and etcd's
		Binaries: []string{
			"kubernetes", "etcd", "kube-apiserver", "kube-controller-manager",
			"kube-scheduler", "kube-proxy", "kubelet", "kubectl",
		},
		build: buildKubernetes,
	}
	Containerd = Tool{
		Name:     "containerd",
		Version:  "v2.4.2",
		Binaries: []string{"containerd", "containerd-shim-runc-v2", "ctr"},
		build: build("github.com/containerd/containerd/v2", "github.com/containerd/containerd/v2/version.Version",
			"./cmd/containerd", "./cmd/containerd-shim-runc-v2", "./cmd/ctr"),
	}
	Registry = Tool{
		Name:     "registry",
		Version:  "v3.0.0",
		Binaries: []string{"registry"},
		build:    buildRegistry,
	}
	Ko = Tool{
		Name:     "ko",
		Version:  "v0.19.1",
		Binaries: []string{"ko"},
		build:    build("github.com/google/ko", "github.com/google/ko/pkg/commands.Version", "."),
	}
	Crane = Tool{
		Name:     "crane",
		Version:  "v0.21.7",
		Binaries: []string{"crane"},
		build:    build("github.com/google/go-containerregistry", "github.com/google/go-containerregistry/cmd/crane/cmd.Version", "./cmd/crane"),
	}
	CoreDNS = Tool{
		Name:     "coredns",
		Version:  "v1.14.6",
		Binaries: []string{"coredns"},
		build:    buildCoreDNS,
		key:      hash(corednsPlugins),
	}
	Traefik = Tool{
		Name:     "traefik",
		Version:  "v3.6.7",
		Binaries: []string{"traefik"},
		build:    buildTraefik,
		key:      hash(noDNSProviders),
	}
)

// All is every tool, in the order in which to print them.
func All() []Tool {
	return []Tool{Kubernetes, Containerd, Registry, CoreDNS, Traefik, Ko, Crane}
}

// Path is where a binary of the tool is.
func (t Tool) Path(l layout.Layout, binary string) string {
	return filepath.Join(l.Tools(t.id()), binary)
}

// Build builds the tool unless that was done, and links its binaries into the
// directory for a PATH.
func (t Tool) Build(ctx context.Context, l layout.Layout) error {
	if _, err := os.Stat(l.Tools(t.id())); err == nil {
		return t.link(l)
	}
	if err := ctx.Err(); err != nil {
		return err // Another build failed: don't begin this one.
	}
	g := golang{source: l.Source(), log: l.BuildLogs(t.Name + ".log")}
	err := progress.Step(fmt.Sprintf("building %s %s", t.Name, t.Version), func() error {
		return progress.WithLog(t.buildWhole(ctx, g, l.Tools(t.id())), g.log)
	})
	if err != nil {
		return err
	}
	return t.link(l)
}

// buildWhole builds into a directory that appears when it is complete.
func (t Tool) buildWhole(ctx context.Context, g golang, dir string) error {
	for _, parent := range []string{filepath.Dir(dir), filepath.Dir(g.log)} {
		if err := os.MkdirAll(parent, 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(g.log, nil, 0o644); err != nil {
		return err
	}
	partial, err := os.MkdirTemp(filepath.Dir(dir), "."+t.Name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial)
	if err := t.build(ctx, g, t, partial); err != nil {
		return err
	}
	if err := os.Chmod(partial, 0o755); err != nil {
		return err
	}
	return os.Rename(partial, dir)
}

func (t Tool) link(l layout.Layout) error {
	if err := os.MkdirAll(l.Bin(), 0o755); err != nil {
		return fmt.Errorf("linking %s: %w", t.Name, err)
	}
	for _, binary := range t.Binaries {
		link, target := l.Bin(binary), filepath.Join("..", "tools", t.id(), binary)
		if is, err := os.Readlink(link); err == nil && is == target {
			continue
		}
		temporary := link + ".new"
		_ = os.Remove(temporary)
		if err := os.Symlink(target, temporary); err != nil {
			return fmt.Errorf("linking %s: %w", t.Name, err)
		}
		if err := os.Rename(temporary, link); err != nil {
			return fmt.Errorf("linking %s: %w", t.Name, err)
		}
	}
	return nil
}

// id names the tool's directory in the cache.
func (t Tool) id() string {
	id := t.Name + "@" + t.Version
	if key := t.key; key != "" {
		id += "-" + key
	}
	return id
}
