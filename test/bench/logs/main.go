// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Logs measures what it costs a container to send its output to the log service, and
// how long that takes to be read, beside containers that are unwrapped and kubectl
// logs, on the cluster that KUBECONFIG names; and what streams cost the service. It
// prints the table of docs/benchmarks.md. With -update, it writes the table there.
//
// It looks at processes of the pods, and compares their clocks with its own, so it has
// to run on the only node of the cluster. For a while, it takes the log service away.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

// enough is when the measuring is given up.
const enough = 12 * time.Minute

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	update := flag.Bool("update", false, "write the table into docs/benchmarks.md")
	serves := flag.String("serve", "", "serve streams in this `directory`, until stdin ends; the bench starts itself so")
	flag.Parse()
	if *serves != "" {
		if err := serve(*serves); err != nil {
			log.Fatal(err)
		}
		return
	}
	if err := run(*update); err != nil {
		log.Fatal(err)
	}
}

func run(update bool) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, enough)
	defer cancel()
	b, err := prepare(ctx)
	if err != nil {
		return err
	}
	defer b.cleanUp(ctx)
	// Whatever happens, the service is there again.
	defer func() { err = errors.Join(err, b.serviceThere(context.WithoutCancel(ctx), true)) }()
	f, err := b.measure(ctx)
	if err != nil {
		return err
	}
	table := render(f)
	fmt.Print(table)
	if !update {
		return nil
	}
	return framework.ReplaceIn(framework.Benchmarks, "logs", table)
}
