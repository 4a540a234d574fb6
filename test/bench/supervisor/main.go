// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Supervisor measures what the supervisor costs in a container, beside programs
// that do the same or a similar job, and prints it as the table of docs/benchmarks.md.
// With -update, it writes the table there. It needs no cluster.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	update := flag.Bool("update", false, "write the table into docs/benchmarks.md")
	turns := flag.Int("turns", 500, "how often to measure what takes milliseconds")
	idle := flag.Duration("idle", time.Minute, "how long to watch them idle")
	flag.Parse()
	if err := run(*turns, *idle, *update); err != nil {
		log.Fatal(err)
	}
}

func run(turns int, idle time.Duration, update bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	top, err := framework.RepositoryRoot()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-supervisor-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	table, err := measure(ctx, top, dir, turns, idle)
	if err != nil {
		return err
	}
	fmt.Print(table)
	if !update {
		return nil
	}
	return framework.ReplaceIn(framework.Benchmarks, "supervisor", table)
}

func measure(ctx context.Context, top, dir string, turns int, idle time.Duration) (string, error) {
	child := filepath.Join(dir, "child")
	if err := build(ctx, top, child, "./test/bench/supervisor/child"); err != nil {
		return "", err
	}
	peers, absent, err := collect(ctx, top, dir)
	if err != nil {
		return "", err
	}
	c := costs{turns: turns, idle: idle}
	if c.starts, err = starts(ctx, peers, turns); err != nil {
		return "", err
	}
	whole := slices.DeleteFunc(slices.Clone(peers), func(p *peer) bool { return p.startOnly })
	if c.exits, err = exits(ctx, whole, child, turns); err != nil {
		return "", err
	}
	if c.signals, c.waits, err = waiting(ctx, whole, child, turns, idle); err != nil {
		return "", err
	}
	return render(peers, absent, c), nil
}
