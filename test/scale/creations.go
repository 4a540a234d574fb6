// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

// created is how long the API server took to create pods at a rate, as dry runs, in
// a namespace that opted in and in one that didn't.
type created struct {
	Rate, Pairs, Failed int
	// PlainReached and OursReached are the pods that were created in a second.
	PlainReached, OursReached float64
	PlainP50, PlainP99        time.Duration
	OursP50, OursP99          time.Duration
	// Added is the mean of the pairs' differences of the medians, and AddedHalf half of the
	// interval around it; the same for the p99.
	Added, AddedHalf       time.Duration
	AddedP99, AddedP99Half time.Duration
	// ServerPlain and ServerOurs are the processor time of the API server for a pod.
	ServerPlain, ServerOurs time.Duration
	Injector                time.Duration
}

// measureCreations compares blocks of creations in pairs, of which the first is in either
// namespace in turn.
func measureCreations(ctx context.Context, w *world, f *figures) error {
	f.Creations = nil
	if err := w.prepareLoad(ctx); err != nil {
		return err
	}
	for _, rate := range w.plan.rates {
		row, err := w.compare(ctx, rate)
		if err != nil {
			return err
		}
		f.Creations = append(f.Creations, row)
	}
	return nil
}

func (w *world) compare(ctx context.Context, rate int) (c created, err error) {
	of := load{rate: rate, requests: max(w.plan.least/4, int(w.plan.block.Seconds()*float64(rate)))}
	sides := map[string]*side{plainNamespace: {}, optedInNamespace: {}}
	order := []string{plainNamespace, optedInNamespace}
	for range w.plan.pairs {
		for _, namespace := range order {
			if err := sides[namespace].block(ctx, w, namespace, of); err != nil {
				return c, err
			}
		}
		slices.Reverse(order)
	}
	plain, ours := sides[plainNamespace], sides[optedInNamespace]
	count := func(s *side) time.Duration { return time.Duration(len(s.all) + s.failed) }
	c = created{
		Rate: rate, Pairs: w.plan.pairs, Failed: plain.failed + ours.failed, PlainReached: plain.reached(), OursReached: ours.reached(),
		ServerPlain: plain.server / count(plain), ServerOurs: ours.server / count(ours), Injector: ours.injector / count(ours),
	}
	c.PlainP50, c.PlainP99 = plain.percentiles()
	c.OursP50, c.OursP99 = ours.percentiles()
	c.Added, c.AddedHalf = difference(ours.p50, plain.p50)
	c.AddedP99, c.AddedP99Half = difference(ours.p99, plain.p99)
	return c, nil
}

// A side is what was measured in one namespace.
type side struct {
	all              []time.Duration
	p50, p99         []float64 // of the blocks, in nanoseconds
	answered         []float64 // a second, of the blocks
	failed           int
	server, injector time.Duration // processor time
}

func (s *side) block(ctx context.Context, w *world, namespace string, of load) error {
	p := taskRunPod("run", "")
	server, err := w.apiServer.Usage()
	if err != nil {
		return err
	}
	injector, err := w.injector.Usage()
	if err != nil {
		return err
	}
	got := drive(ctx, of, func(ctx context.Context, _ int) error {
		_, err := w.dryRun(ctx, namespace, p)
		return err
	})
	if len(got.times) == 0 {
		return fmt.Errorf("creating pods in namespace %q: none was created: %w", namespace, got.why)
	}
	serverAfter, err := w.apiServer.Usage()
	if err != nil {
		return err
	}
	injectorAfter, err := w.injector.Usage()
	if err != nil {
		return err
	}
	s.server += serverAfter.CPU - server.CPU
	s.injector += injectorAfter.CPU - injector.CPU
	s.failed += got.failed
	s.all = append(s.all, got.times...)
	s.answered = append(s.answered, got.answered(of))
	s.p50 = append(s.p50, float64(framework.Percentile(got.times, 50)))
	s.p99 = append(s.p99, float64(framework.Percentile(got.times, 99)))
	return ctx.Err()
}

// reached is the mean of the blocks.
func (s *side) reached() float64 {
	mean, _ := framework.Interval(s.answered)
	return mean
}

func (s *side) percentiles() (p50, p99 time.Duration) {
	slices.Sort(s.all)
	return framework.Percentile(s.all, 50), framework.Percentile(s.all, 99)
}

// difference returns the mean difference of pairs, and half of the interval around it.
func difference(ours, plain []float64) (mean, half time.Duration) {
	differences := make([]float64, len(ours))
	for i := range ours {
		differences[i] = ours[i] - plain[i]
	}
	m, h := framework.Interval(differences)
	return time.Duration(m), time.Duration(h)
}
