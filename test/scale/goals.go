// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strings"
	"time"
)

// The goals.
const (
	namespaceGoal = 1024 // bytes
	imagesGoal    = 0.05 // of the heap, from half of the images to all
	cachesFull    = 50_000
	readyGoal     = 10 * time.Second
	oursGoal      = 10 * time.Millisecond
	podsGoal      = 0.05 // of the heap
	creationGoal  = 1.5  // of the time without us
	reachedShare  = 0.95 // of the pods that were asked for
)

// renderGoals compares what was measured with the goals.
func renderGoals(f figures) string {
	var goals []string
	add := func(goal string, met bool, found string, arguments ...any) {
		verdict := "missed"
		if met {
			verdict = "met"
		}
		goals = append(goals, fmt.Sprintf("- *%s*: %s: %s.\n", goal, verdict, fmt.Sprintf(found, arguments...)))
	}
	if n := len(f.Namespaces); n > 1 {
		first, last := f.Namespaces[0], f.Namespaces[n-1]
		heap := perNamespace(first, last, func(m memory) int64 { return m.Heap })
		add("Memory that doesn't grow but for 1 KiB a namespace", heap <= namespaceGoal,
			"%d bytes of the heap, and %d of RSS, for each of %s namespaces, half of which opted in",
			heap, perNamespace(first, last, func(m memory) int64 { return m.RSS }), number(2*last.Objects))
		add("Ready within 10 s", last.ready() < readyGoal, "after %s, with %s namespaces that opted in and as many that didn't", seconds(last.ready()), number(last.Objects))
	}
	if c, ok := atMost(f.Creations); ok {
		ratio := float64(c.OursP50) / float64(c.PlainP50)
		add("A pod is created in 1.5 times the time without us", ratio <= creationGoal,
			"%.2f times by the medians, %s beside %s, at %d a second, which is the highest rate that both namespaces reached", ratio, ms(c.OursP50), ms(c.PlainP50), c.Rate)
	}
	if n := len(f.Reviews); n > 0 {
		most := f.Reviews[n-1].Rate
		var worst loaded
		for _, l := range f.Reviews {
			if l.Rate == most && l.P99 > worst.P99 {
				worst = l
			}
		}
		add("A p99 of our part under 10 ms, with 500 admissions a second on one core", worst.P99 < oursGoal && worst.Failed+worst.Unsent == 0 && most == 500,
			"%s at %d a second, with %s", ms(worst.P99), most, worst.Kind)
	}
	if half, all := memoryWith(f.Images, cachesFull), memoryWith(f.Images, 2*cachesFull); half.Heap > 0 && all.Heap > 0 {
		add("Memory that doesn't grow with images, once the caches are full", float64(all.Heap-half.Heap) < imagesGoal*float64(half.Heap),
			"the heap has %s after %s images, and %s after %s", mb(half.Heap), number(cachesFull), mb(all.Heap), number(2*cachesFull))
	}
	if n := len(f.Pods); n > 1 {
		first, last := f.Pods[0].Injector.Heap, f.Pods[n-1].Injector.Heap
		add("Nothing grows with the pods that exist", float64(last-first) < podsGoal*float64(first),
			"the heap has %s without pods, and %s with %s", mb(first), mb(last), number(f.Pods[n-1].Objects))
	}
	return strings.Join(goals, "")
}

// atMost returns the row of the highest rate at which pods were created as fast as was asked for: at
// a higher one, times are those of a queue.
func atMost(rows []created) (c created, ok bool) {
	for _, r := range rows {
		enough := reachedShare * float64(r.Rate)
		if r.PlainReached >= enough && r.OursReached >= enough && r.PlainP50 > 0 && r.Rate >= c.Rate {
			c, ok = r, true
		}
	}
	return c, ok
}

// perNamespace returns the growth of a kind of memory for each namespace.
func perNamespace(first, last grown, of func(memory) int64) int64 {
	return (of(last.Injector) - of(first.Injector)) / int64(2*(last.Objects-first.Objects))
}

// memoryWith returns the memory with a number of images, 0 if they weren't measured.
func memoryWith(rows []imagesRow, images int) memory {
	for _, r := range rows {
		if r.Images == images {
			return r.Injector
		}
	}
	return memory{}
}
