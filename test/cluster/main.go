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

	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/node"
	"github.com/entrypointer/entrypointer/test/cluster/internal/tools"
)

const usage = `Usage: cluster [-kind] [-kubernetes VERSION] [-tekton VERSION] [-knative VERSION] COMMAND

  up        build what isn't built, start what isn't running, wait until ready
  fixtures  add what only the tests need: images of Debian's packages
  down      end the cluster, and leave nothing of it behind
  status    tell what runs; exits with 0 only if the cluster is up
  env       print settings for a shell: eval "$(cluster env)"
  logs      tell where the logs are; with a component's name, print its log
  build     build everything, and start nothing
  tools     build ctr and crane, to look into the cluster with
  pin       write of which modules a release is built: cluster pin kubernetes v1.37.2

With -kind, the nodes are three containers that kind makes on a Docker daemon of its own.
With -kubernetes, the cluster has this version of Kubernetes, 1.37 for instance, and with
-tekton and -knative these versions of Tekton and Knative Serving. Without them, commands are
about the cluster that runs, and "up" and "build" about programs/go.mod.
`

// cluster is the cluster of this machine: there is at most one.
type cluster struct {
	layout   layout.Layout
	programs tools.Module
	// others are of which modules those projects are built that have another version than
	// that of programs, by their names.
	others map[string]tools.Module
	kind   bool
	node   nodes
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
	"pin":      (*cluster).pin,
}

func main() {
	flag.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	o := options{versions: map[string]string{}}
	flag.BoolVar(&o.kind, "kind", false, "")
	for _, p := range tools.Projects() {
		flag.Func(p.Name, "", func(version string) error { o.versions[p.Name] = version; return nil })
	}
	flag.Parse()
	o.command = flag.Arg(0)
	command, ok := commands[o.command]
	if !ok {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(command, o, flag.Args()[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "cluster %s: %v\n", o.command, err)
		os.Exit(1)
	}
}

func run(command func(*cluster, context.Context, []string) error, o options, args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := open(o)
	if err != nil {
		return err
	}
	err = command(c, ctx, args)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w, while %w", context.Cause(ctx), err)
	}
	return err
}

// programsDir is the directory of the programs' module.
func programsDir() string { return filepath.Join(sourceDir(), "programs") }

// sourceDir is the directory of this file, if the compiler was allowed to tell
// (-trimpath forbids it), or the current one.
func sourceDir() string {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		return filepath.Dir(file)
	}
	return "."
}
