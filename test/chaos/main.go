// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Chaos keeps up a steady load of pods, TaskRuns, Jobs, Deployments and scale-ups of Knative
// Services in namespaces that opted in and in one that didn't, has one part of the cluster
// after the other fail, and counts what users saw.
//
//	go run ./test/chaos
//
// It needs a cluster with the product installed ("make chaos" sees to both). Faults of
// processes need the cluster of test/cluster, on this machine and as root. It fails if a pod
// ran unwrapped, was refused or lost output where that isn't due, if somebody outside
// noticed, or if it took longer than a minute until all worked again. Package framework
// describes the environment that it reads.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
	"github.com/entrypointer/entrypointer/test/markdown"
)

// options are what the command line says.
type options struct {
	faults  []fault
	lasting time.Duration // how long a fault lasts that somebody has to end
	every   time.Duration // between two objects of the load in either namespace
	pairs   int
	seed    uint64
	update  bool
}

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = chaos(ctx, o)
		stop()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "chaos: %v\n", err)
		os.Exit(1)
	}
}

// parse reads the command line.
func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	names := flags.String("faults", "", "the faults to run, by their names with commas between; without, all of them")
	short := flags.Bool("short", false, "run two of the faults that don't take long, which -seed chooses, in three minutes")
	flags.DurationVar(&o.lasting, "for", 20*time.Second, "how long a fault lasts that doesn't heal by itself")
	flags.DurationVar(&o.every, "every", 2*time.Second, "the time between two objects of the load in each of the two namespaces")
	flags.IntVar(&o.pairs, "pairs", 0, "how many random pairs of the faults to run after them")
	flags.Uint64Var(&o.seed, "seed", 1, "what the pairs, and the faults of -short, are chosen by")
	flags.BoolVar(&o.update, "update", false, "write the table into docs/chaos.md")
	list := flags.Bool("list", false, "print the faults, and run none")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.every < 100*time.Millisecond {
		return o, fmt.Errorf("reading -every %v: it is less than 100ms", o.every)
	}
	if *list {
		for _, f := range faults {
			fmt.Printf("%-28s %s\n", f.name, f.what)
		}
		return o, flag.ErrHelp
	}
	if o.faults, err = named(*names); *short {
		o.lasting = min(o.lasting, 10*time.Second)
		o.faults = shortly(o.faults, o.seed)
	}
	return o, err
}

// shortly chooses two of those faults that don't take long: as the seed grows, each in its
// turn.
func shortly(of []fault, seed uint64) []fault {
	of = slices.DeleteFunc(slices.Clone(of), func(f fault) bool { return f.long || f.inject == nil })
	if len(of) < 2 {
		return of
	}
	count := uint64(len(of))
	return []fault{of[seed%count], of[(seed%count+count/2)%count]}
}

// named returns the faults of a list of names, all if it is empty.
func named(list string) ([]fault, error) {
	if list == "" {
		return faults, nil
	}
	var chosen []fault
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
		if i < 0 {
			return nil, fmt.Errorf("looking for fault %q: there is none; -list prints them", name)
		}
		chosen = append(chosen, faults[i])
	}
	return chosen, nil
}

// drills are the faults one by one, and then pairs of two that concern different parts. Of a
// pair, that fault is first that needs more of the cluster.
func drills(o options) [][]fault {
	var all, pairs [][]fault
	for i, f := range o.faults {
		all = append(all, []fault{f})
		for _, other := range o.faults[i+1:] {
			if f.inject != nil && other.inject != nil && f.part() != other.part() {
				pairs = append(pairs, []fault{f, other})
			}
		}
	}
	random := rand.New(rand.NewPCG(o.seed, 0)) //nolint:gosec // G404: it has to be repeatable
	random.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	return append(all, pairs[:min(o.pairs, len(pairs))]...)
}

func chaos(ctx context.Context, o options) (err error) {
	cluster, err := framework.Connect()
	if err != nil {
		return err
	}
	// Other tests may have ended a moment ago.
	if err := framework.Eventually(ctx, recovery, "the cluster to be ready", cluster.Preflight); err != nil {
		return err
	}
	if err := cluster.WaitForInjector(ctx); err != nil {
		return err
	}
	c, err := prepare(ctx, cluster, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.tidy(context.WithoutCancel(ctx))) }()
	var (
		rows []row
		errs []error
	)
	for _, d := range drills(o) {
		r, err := c.drill(ctx, d)
		if ctx.Err() != nil {
			return errors.Join(append(errs, err)...)
		}
		if err != nil { // other drills tell more
			errs = append(errs, fmt.Errorf("%s: %w", names(d), err))
			fmt.Fprintln(os.Stderr, errs[len(errs)-1])
			continue
		}
		rows = append(rows, r)
		fmt.Printf("%s\n", r)
		if o.update { // at once: a later drill may be interrupted
			if err := update(r); err != nil {
				return err
			}
		}
	}
	fmt.Print("\n", merge("", rows))
	return errors.Join(append(errs, verdict(rows))...)
}

// update writes what a drill found into docs/chaos.md. Rows of other drills stay.
func update(rows ...row) error {
	top, err := framework.RepositoryRoot()
	if err != nil {
		return err
	}
	table, err := markdown.Section(filepath.Join(top, filepath.FromSlash(framework.Chaos)), "chaos")
	if err != nil {
		return err
	}
	return errors.Join(
		framework.ReplaceIn(framework.Chaos, "faults", renderFaults()),
		framework.ReplaceIn(framework.Chaos, "chaos", merge(table, rows)),
	)
}

// verdict is an error that says which goals were missed.
func verdict(rows []row) error {
	var missed []string
	for _, r := range rows {
		for _, problem := range r.problems() {
			missed = append(missed, r.name()+": "+problem)
		}
	}
	if len(missed) == 0 {
		return nil
	}
	return fmt.Errorf("goals were missed:\n  %s", strings.Join(missed, "\n  "))
}
