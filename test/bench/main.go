// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Bench measures what admission costs, on this machine and on the cluster that
// KUBECONFIG names, and prints it as the table of docs/benchmarks.md. With -update, it
// writes the table there.
//
// It sends admission reviews to the injector's Service, so it has to run where
// that can be reached: on a node of the cluster.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	update := flag.Bool("update", false, "write the table into docs/benchmarks.md")
	rate := flag.Int("rate", 500, "admissions a second")
	duration := flag.Duration("duration", 30*time.Second, "how long to keep that up")
	flag.Parse()
	if err := run(*rate, *duration, *update); err != nil {
		log.Fatal(err)
	}
}

func run(rate int, duration time.Duration, update bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	table, err := measure(ctx, rate, duration)
	if err != nil {
		return err
	}
	fmt.Print(table)
	if !update {
		return nil
	}
	return framework.ReplaceIn(framework.Benchmarks, "bench", table)
}

func measure(ctx context.Context, rate int, duration time.Duration) (string, error) {
	cluster, err := framework.Connect()
	if err != nil {
		return "", err
	}
	functions, err := benchmarks(ctx)
	if err != nil {
		return "", err
	}
	creations, err := compareCreations(ctx, cluster)
	if err != nil {
		return "", err
	}
	load, err := loadOneReplica(ctx, cluster, rate, duration)
	if err != nil {
		return "", err
	}
	return render(functions, creations, load), nil
}
