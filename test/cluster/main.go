// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// The cluster program builds and runs a real Kubernetes on this machine, with
// Tekton and Knative, for the demo and the end-to-end tests. See README.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/entrypointer/entrypointer/test/cluster/internal/images"
	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/node"
	"github.com/entrypointer/entrypointer/test/cluster/internal/tools"
)

const usage = `Usage: cluster [-kind] COMMAND

  up        build what isn't built, start what isn't running, wait until ready
  fixtures  add what only the tests need: images of Debian's packages
  down      end the cluster, and leave nothing of it behind
  status    tell what runs; exits with 0 only if the cluster is up
  env       print settings for a shell: eval "$(cluster env)"
  logs      tell where the logs are; with a component's name, print its log
  build     build everything, and start nothing
  tools     build ctr and crane, to look into the cluster with

With -kind, the nodes are three containers that kind makes on a Docker daemon of its own.
`

// cluster is the cluster of this machine: there is at most one.
type cluster struct {
	layout   layout.Layout
	programs tools.Module
	kind     bool
	// kubernetes is the version of Kubernetes, if kind makes the nodes: their image and
	// those of the control plane have it as their tags.
	kubernetes string
	node       nodes
}

// nodes are what runs pods: one, whose components are processes of this machine, or
// several that kind makes.
type nodes interface {
	Usable() bool
	StartRegistry(ctx context.Context) error
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	Components() []node.Component
	// Journal is the log that a component of the nodes has there; none if it has none.
	Journal(ctx context.Context, component string) (string, error)
}

// commands, by their names.
var commands = map[string]func(*cluster, context.Context, []string) error{
	"up":       (*cluster).up,
	"fixtures": (*cluster).fixtures,
	"down":     (*cluster).down,
	"status":   (*cluster).status,
	"env":      (*cluster).env,
	"logs":     (*cluster).logs,
	"build":    (*cluster).build,
	"tools":    (*cluster).tools,
}

func main() {
	flag.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	kind := flag.Bool("kind", false, "")
	flag.Parse()
	command, ok := commands[flag.Arg(0)]
	if !ok {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(command, *kind, flag.Args()[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "cluster %s: %v\n", flag.Arg(0), err)
		os.Exit(1)
	}
}

func run(command func(*cluster, context.Context, []string) error, kind bool, args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, err := layout.Default(kind)
	if err != nil {
		return err
	}
	programs, err := tools.Open(l, filepath.Join(sourceDir(), "programs"))
	if err != nil {
		return err
	}
	c := &cluster{layout: l, programs: programs, kind: kind, node: node.New(l, images.Pause)}
	if kind {
		if c.kubernetes, err = programs.Version("k8s.io/kubernetes"); err != nil {
			return err
		}
		c.node = node.NewKind(l, images.KindNode(c.kubernetes), images.Pause)
	}
	err = command(c, ctx, args)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w, while %w", context.Cause(ctx), err)
	}
	return err
}

// sourceDir is the directory of this file, if the compiler was allowed to tell
// (-trimpath forbids it), or the current one.
func sourceDir() string {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		return filepath.Dir(file)
	}
	return "."
}
