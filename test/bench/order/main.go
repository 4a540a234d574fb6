// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Order measures how long it takes from the end of a container to the start, or the
// stop, of another one that depends on it, and what becomes of the hard cases, beside
// Argo's emissary and kubexit. It prints the tables of docs/benchmarks.md; with
// -update, it writes them there.
//
// Containers are processes with PID and mount namespaces of their own, so it has to be
// run by root. It needs no cluster: kubexit asks an API server for what it starts, and
// gets one that answers from memory. Argo's emissary is built from its module unless
// an argoexec is given, of another version for instance; a kubexit has to be given.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	update := flag.Bool("update", false, "write the tables into docs/benchmarks.md")
	turns := flag.Int("turns", 30, "how often to measure the time from an end to a start")
	var given peers
	flag.StringVar(&given.argoexec, "argoexec", "", "the path of an argoexec to compare with, which is shown by the version that it prints; by default, "+argoVersion+" is built")
	flag.StringVar(&given.kubexit, "kubexit", "", "the path of a kubexit to compare with, which is shown by its file's name, such as kubexit-v0.3.2")
	flag.Parse()
	if err := run(*turns, given, *update); err != nil {
		log.Fatal(err)
	}
}

func run(turns int, given peers, update bool) error {
	if !isRoot() {
		return errors.New("making namespaces for containers: this user may not; run it as root")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	top, err := framework.RepositoryRoot()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-order-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	all, err := systems(ctx, top, dir, given)
	if err != nil {
		return err
	}
	f := findings{turns: turns, times: map[*system][]time.Duration{}, verdicts: map[*system]map[string]verdict{}}
	if err := errors.Join(f.takeTurns(ctx, all, dir), f.tryHardCases(ctx, all, dir)); err != nil {
		return err
	}
	text := f.render(all)
	fmt.Print(text)
	if !update {
		return nil
	}
	return framework.ReplaceIn(framework.Benchmarks, "order", text)
}

func isRoot() bool { return os.Getuid() == 0 }

// findings are what was measured of each system. The times are sorted.
type findings struct {
	turns    int
	times    map[*system][]time.Duration
	verdicts map[*system]map[string]verdict // by the name of the case
}

// takeTurns measures each system, in another order each turn. The end comes at any
// time between two looks.
func (f *findings) takeTurns(ctx context.Context, all []*system, dir string) error {
	for range f.turns {
		for _, at := range rand.Perm(len(all)) { //nolint:gosec // G404: nobody gains from guessing the order
			s := all[at]
			if s.why != "" {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			took, err := s.measure(dir)
			if err != nil {
				return fmt.Errorf("measuring %s: %w", s.name, err)
			}
			f.times[s] = append(f.times[s], took)
		}
	}
	for _, times := range f.times {
		slices.Sort(times)
	}
	return nil
}

// measure is how long it takes once from what the second depends on to what it does.
func (s *system) measure(dir string) (took time.Duration, err error) {
	p, err := s.newPod(dir, way{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	first, second, err := p.both(way{})
	if err != nil {
		return 0, err
	}
	time.Sleep(rand.N(s.looks + settling)) //nolint:gosec // G404: nobody gains from guessing it
	since, err := p.release(first)
	if err != nil {
		return 0, err
	}
	at, reacted := second.await(p.event, patience)
	if !reacted {
		return 0, fmt.Errorf("waiting for the second container: it hasn't %s after %v: %s", p.event, patience, second.stderr)
	}
	return at - since, nil
}

func (f *findings) tryHardCases(ctx context.Context, all []*system, dir string) error {
	for _, s := range all {
		f.verdicts[s] = map[string]verdict{}
		for _, c := range hardCases {
			if s.why != "" || c.only != "" && c.only != s.event || c.files && s.asks {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			v, err := s.face(c, dir)
			if err != nil {
				return fmt.Errorf("trying %s: %s: %w", s.name, c.name, err)
			}
			f.verdicts[s][c.name] = v
		}
	}
	return nil
}

// face has a system face a hard case.
func (s *system) face(c hardCase, dir string) (v verdict, err error) {
	p, err := s.newPod(dir, c.way)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	return c.try(p, c.way)
}
