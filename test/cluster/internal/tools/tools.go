// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package tools builds the programs that a cluster needs. One module,
// test/cluster/programs, requires all of them, so that a package which many of
// them share, Kubernetes' client for instance, is compiled once.
package tools

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/entrypointer/entrypointer/test/cluster/internal/host"
	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/progress"
)

// Group is programs that are built by one run of the go command, because they
// are needed at the same time.
type Group struct {
	Name     string
	Programs []Program
	OnPath   bool // The directory for a PATH has links to the binaries.
}

// Program is a program, by the import path of its main package.
type Program struct {
	Package string
	Links   []string // other names of the binary
}

// Binary is the file's name.
func (p Program) Binary() string { return path.Base(p.Package) }

// own is where the main packages are that this repository has.
const own = "github.com/entrypointer/entrypointer/test/cluster/programs/"

// KindModule has kind, and the files of its nodes' image.
const KindModule = "sigs.k8s.io/kind"

// The groups, in the order in which they are needed; those of the releases,
// which their YAML names, come after the node.
var (
	Node = Group{Name: "node", OnPath: true, Programs: append([]Program{kubernetes}, beside...)}
	// Kubernetes and Beside are Node in two: Kubernetes at another version, and the rest.
	Kubernetes = Group{Name: "kubernetes", OnPath: true, Programs: []Program{kubernetes}}
	Beside     = Group{Name: "beside", OnPath: true, Programs: beside}
	// Provisioner makes volumes for claims. It is no part of Node because it imports
	// logrus by a name that differs from the others' in its letters' case, and the go
	// command builds no such two together.
	Provisioner = Group{Name: "provisioner", OnPath: true, Programs: []Program{{Package: "github.com/rancher/local-path-provisioner"}}}
	// Kind makes nodes that are containers, and is what their image needs.
	Kind = Group{Name: "kind", OnPath: true, Programs: []Program{
		{Package: KindModule},
		{Package: "k8s.io/kubernetes/cmd/kubeadm"},
		{Package: own + "boundedrunc"},
	}}
	// Ko deploys the product.
	Ko = Group{Name: "ko", OnPath: true, Programs: []Program{{Package: "github.com/google/ko"}}}
	// Extras are for the person who looks into the cluster.
	Extras = Group{Name: "extras", OnPath: true, Programs: []Program{
		{Package: "github.com/containerd/containerd/v2/cmd/ctr"},
		{Package: "github.com/google/go-containerregistry/cmd/crane"},
	}}
)

var (
	kubernetes = Program{Package: own + "kubernetes", Links: []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl",
	}}
	beside = []Program{
		{Package: "github.com/containerd/containerd/v2/cmd/containerd"},
		{Package: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"},
		{Package: own + "coredns"},
		{Package: "github.com/traefik/traefik/v3/cmd/traefik"},
	}
)

// Packages are the import paths of the group's programs.
func (g Group) Packages() []string {
	paths := make([]string, len(g.Programs))
	for i, p := range g.Programs {
		paths[i] = p.Package
	}
	return paths
}

// dir is where the group's binaries are: a new one when anything changes that
// they are made of.
func (g Group) dir(l layout.Layout, m Module) string {
	return l.Tools(g.Name + "-" + hash(m.key, strings.Join(g.Packages(), " ")))
}

// Built tells whether the group was built before.
func (g Group) Built(l layout.Layout, m Module) bool {
	_, err := os.Stat(g.dir(l, m))
	return err == nil
}

// Build builds the group unless that was done, and returns the directory of
// its binaries. The part of the work is told of each package that is compiled.
func (g Group) Build(ctx context.Context, l layout.Layout, m Module, part *progress.Part) (string, error) {
	dir := g.dir(l, m)
	if g.Built(l, m) {
		part.Done()
		return dir, g.link(l, dir)
	}
	log := l.BuildLogs(g.Name + ".log")
	err := progress.Step("building "+g.binaries(), func() error {
		return writeLog(log, func(log io.Writer) error { return g.build(ctx, m, dir, log, part) })
	})
	if err != nil {
		return "", err
	}
	return dir, g.link(l, dir)
}

func (g Group) binaries() string {
	names := make([]string, len(g.Programs))
	for i, p := range g.Programs {
		names[i] = p.Binary()
	}
	return strings.Join(names, ", ")
}

// build builds into a directory that appears when it is complete.
func (g Group) build(ctx context.Context, m Module, dir string, log io.Writer, part *progress.Part) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	partial, err := os.MkdirTemp(filepath.Dir(dir), "."+g.Name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial)
	if err := m.compile(ctx, g, partial, log, part); err != nil {
		return err
	}
	if err := os.Chmod(partial, 0o755); err != nil {
		return err
	}
	for _, p := range g.Programs {
		for _, name := range p.Links {
			if err := os.Symlink(p.Binary(), filepath.Join(partial, name)); err != nil {
				return err
			}
		}
	}
	return os.Rename(partial, dir)
}

// link makes the binaries in a directory those that the one for a PATH has.
func (g Group) link(l layout.Layout, dir string) error {
	if !g.OnPath {
		return nil
	}
	if err := os.MkdirAll(l.Bin(), 0o755); err != nil {
		return fmt.Errorf("linking %s: %w", g.Name, err)
	}
	for _, p := range g.Programs {
		for _, name := range append([]string{p.Binary()}, p.Links...) {
			if err := host.Link(filepath.Join(dir, name), l.Bin(name)); err != nil {
				return fmt.Errorf("linking %s: %w", name, err)
			}
		}
	}
	return nil
}
