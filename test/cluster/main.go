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
	"github.com/entrypointer/entrypointer/test/cluster/internal/tools"
)

const usage = `Usage: cluster COMMAND

  up      build what isn't built, start what isn't running, wait until ready
  down    end the cluster, and leave nothing of it behind
  status  tell what runs; exits with 0 only if the cluster is up
  env     print settings for a shell: eval "$(cluster env)"
  logs    tell where the logs are; with a component's name, print its log
  build   build everything, and start nothing
`

// commands, by their names.
var commands = map[string]func(context.Context, layout.Layout, []string) error{
	"up":     up,
	"down":   down,
	"status": status,
	"env":    env,
	"logs":   logs,
	"build":  build,
}

func main() {
	flag.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	flag.Parse()
	command, ok := commands[flag.Arg(0)]
	if !ok {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(command, flag.Args()[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "cluster %s: %v\n", flag.Arg(0), err)
		os.Exit(1)
	}
}

func run(command func(context.Context, layout.Layout, []string) error, args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, err := layout.Default()
	if err != nil {
		return err
	}
	if err := tools.UseSource(sourceDir()); err != nil {
		return err
	}
	err = command(ctx, l, args)
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
