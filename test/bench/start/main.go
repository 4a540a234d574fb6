// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Start measures what each delivery adds to the start of a pod, beside a pod that is
// unwrapped and one whose init container does nothing, taking turns, on the cluster
// that KUBECONFIG names, and prints the table of docs/benchmarks.md. With -update, it
// writes it there.
//
// It compares a container's clock with its own, so it has to run on the only node
// of the cluster. It builds the copier, to run that by itself.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/entrypointer/entrypointer/test/framework"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	update := flag.Bool("update", false, "write the table into docs/benchmarks.md")
	rounds := flag.Int("rounds", 30, "how many pods to start of each kind")
	flag.Parse()
	if err := run(*rounds, *update); err != nil {
		log.Fatal(err)
	}
}

func run(rounds int, update bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b, err := prepare(ctx)
	if err != nil {
		return err
	}
	defer b.cleanUp(ctx)
	copies, err := timeCopies(ctx, rounds)
	if err != nil {
		return err
	}
	if err := b.startPods(ctx, rounds); err != nil {
		return err
	}
	table := render(b.kinds, copies)
	fmt.Print(table)
	if !update {
		return nil
	}
	return framework.ReplaceIn(framework.Benchmarks, "start", table)
}
