// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Handoff measures how long it takes from the end of a TaskRun's step to the
// start of the next, in a namespace that opted in and in one that didn't,
// taking turns, on the cluster that KUBECONFIG names, and prints the table of the
// README. With -update, it writes it there, and draws docs/handoff.svg. Where
// there are image volumes, it measures with them, too.
//
// It looks at processes of the steps, and compares their clocks with its own, so
// it has to run on the only node of the cluster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

// A shape is what a TaskRun consists of: so many steps, which take 50 to 240 ms,
// or each the same time.
type shape struct {
	steps int
	alike bool
}

// shapes are measured; drawn is the one of the plot.
var (
	shapes = []shape{{steps: 1}, {steps: 2}, {steps: 3}, {steps: 8}, {steps: 20}, {3, true}, {8, true}}
	drawn  = shape{steps: 8}
)

const (
	// most is how often a TaskRun runs at most whose figures vary.
	most = 24
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	update := flag.Bool("update", false, "write the table and the plot into docs, and what its most telling rows say into the README")
	rounds := flag.Int("rounds", 6, "how often to run each TaskRun, if there is time; those of which it isn't known then which side is faster run more often")
	enough := flag.Duration("enough", 25*time.Minute, "when no other round begins; on a machine that does other things as well, there are fewer")
	idle := flag.Duration("idle", 30*time.Second, "how long to watch steps that wait")
	flag.Parse()
	if err := run(*rounds, *enough, *idle, *update); err != nil {
		log.Fatal(err)
	}
}

func run(rounds int, enough, idle time.Duration, update bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b, err := prepare(ctx)
	if err != nil {
		return err
	}
	defer b.cleanUp(ctx)
	f, err := b.measure(ctx, rounds, enough, idle)
	if err != nil {
		return err
	}
	table, plot := render(f), draw(median(f.plain().runs[drawn]), median(f.wrapped().runs[drawn]))
	fmt.Print(table)
	if !update {
		return nil
	}
	top, err := framework.RepositoryRoot()
	if err != nil {
		return err
	}
	if err := errors.Join(
		framework.ReplaceIn(framework.Benchmarks, "handoff", table),
		framework.ReplaceIn(framework.README, "handoff", telling(table)),
	); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(top, "docs/handoff.svg"), []byte(plot), 0o644)
}

// figures are all that was measured.
type figures struct {
	idle  time.Duration
	sides []*side // Tekton alone first
}

// A side is what was measured in one way of running TaskRuns.
type side struct {
	name      string
	namespace string
	delivery  string // of the supervisor, empty where there is none
	runs      map[shape][]taskRun
	waiting   []framework.Usage // of each step that waited, while it did
}

func (f figures) plain() *side   { return f.sides[0] }
func (f figures) wrapped() *side { return f.sides[1] }

// measure has the sides take turns with each TaskRun, for what else the machine
// does changes with the minutes.
func (b *bench) measure(ctx context.Context, rounds int, enough, idle time.Duration) (figures, error) {
	f := figures{idle: idle, sides: b.sides}
	// Images are pulled, and everything is warm.
	for _, s := range f.sides {
		if _, err := b.time(ctx, s, shape{steps: 1}); err != nil {
			return f, err
		}
	}
	start := time.Now()
	for round, left := 0, shapes; len(left) > 0 && round < most && time.Since(start) < enough; round++ {
		for at, shape := range left {
			phase := phaseOf(round*len(shapes) + at)
			for _, s := range f.sides {
				awaitPhase(phase)
				took, err := b.time(ctx, s, shape)
				if err != nil {
					return f, err
				}
				s.runs[shape] = append(s.runs[shape], took)
			}
		}
		if round+1 >= rounds {
			left = slices.DeleteFunc(slices.Clone(left), f.decided)
		}
	}
	return f, b.watchWaiting(ctx, idle, f.plain(), f.wrapped())
}

// The kubelet looks at its containers once a second, and each step of a pod's start, such
// as the end of an init container, waits for the next look. A TaskRun that is created right
// after the end of another one would always meet the same moment between two looks, and
// its time would be whole seconds. So TaskRuns begin at moments that are spread over a
// second, and at the same one on all sides.

// phaseOf returns the moment within a second of the nth group of TaskRuns: multiples of the
// golden ratio fill the second evenly, however many there are.
func phaseOf(n int) time.Duration {
	_, fraction := math.Modf(float64(n) * math.Phi)
	return time.Duration(fraction * float64(time.Second))
}

// awaitPhase waits for the next such moment.
func awaitPhase(phase time.Duration) {
	now := time.Duration(time.Now().UnixNano()) % time.Second
	time.Sleep((phase - now + time.Second) % time.Second)
}

// decided says that it is known of each side how TaskRuns of a shape compare.
func (f figures) decided(of shape) bool {
	return !slices.ContainsFunc(f.sides[1:], func(s *side) bool { return f.walls(s, of).wide() })
}

// walls compares what whole TaskRuns of a shape take alone, and on a side.
func (f figures) walls(s *side, of shape) ratio {
	return ratioOf(each(f.plain().runs[of], taskRun.wall), each(s.runs[of], taskRun.wall))
}
