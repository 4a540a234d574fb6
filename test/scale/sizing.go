// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// What the sizing of docs/operations.md adds to what was measured.
const (
	// margin is that of a request over what was measured.
	margin = 1.25
	// requestStep and limitStep are those of requests and limits of memory, in MiB.
	requestStep, limitStep = 32, 128
	// leastRequest and leastLimit are those of config/webhook/500-injector.yaml, in MiB.
	leastRequest, leastLimit = 64, 512
	// busiest is what a replica should use of a core, so that requests don't wait for each
	// other.
	busiest = 0.8
	// cpuStep and leastCPU are those of requests of CPU, in thousandths of a core.
	cpuStep, leastCPU = 50, 50
)

// sizes are the numbers of namespaces for which there is a row.
var sizes = []int{100, 1000, 10_000}

// renderSizing derives requests, limits and replicas from what was measured.
func renderSizing(f figures) string {
	parts := []string{sizeMemory(f), sizeCPU(f.Reviews), bounds(f)}
	var b strings.Builder
	for _, part := range parts {
		if part != "" && b.Len() > 0 {
			b.WriteString("\n")
		}
		b.WriteString(part)
	}
	return b.String()
}

func sizeMemory(f figures) string {
	if len(f.Namespaces) < 2 {
		return ""
	}
	images := imagesMemory(f.Images)
	rows := [][]string{{"namespaces that opted in, and as many not", "highest RSS with them", withImages(f.Images), "request of memory", "limit of memory", "from start to ready"}}
	for _, n := range sizes {
		if n > f.Namespaces[len(f.Namespaces)-1].Objects {
			continue
		}
		own := between(f.Namespaces, n, func(g grown) float64 { return float64(g.Injector.Highest) })
		ready := between(f.Namespaces, n, func(g grown) float64 { return float64(g.ready()) })
		request := max(leastRequest, roundUp(margin*(own+images)/(1<<20), requestStep))
		limit := max(leastLimit, roundUp(2*float64(request), limitStep))
		rows = append(rows, []string{
			number(n), mb(int64(own)), mb(int64(own + images)), fmt.Sprintf("%dMi", request), fmt.Sprintf("%dMi", limit), seconds(time.Duration(ready)),
		})
	}
	return table(rows)
}

// withImages is the head of the column that adds the memory of images.
func withImages(rows []imagesRow) string {
	if len(rows) < 2 {
		return "with images, which weren't measured"
	}
	if n := rows[len(rows)-1].Images; n < cachesFull {
		return "with " + number(n) + " images"
	}
	return "with full caches of images"
}

// imagesMemory returns what images add to the highest RSS, in bytes.
func imagesMemory(rows []imagesRow) float64 {
	if len(rows) < 2 {
		return 0
	}
	return max(0, float64(rows[len(rows)-1].Injector.Highest-rows[0].Injector.RSS))
}

// sizeCPU has a row for each rate. One replica of them may be missing.
func sizeCPU(reviews []loaded) string {
	rows := [][]string{{"admissions a second", "CPU of all replicas", "replicas", "request of CPU for each", "p99 of one on a core"}}
	for i := 0; i < len(reviews); {
		worst, rate := loaded{}, reviews[i].Rate
		p99 := time.Duration(0)
		for ; i < len(reviews) && reviews[i].Rate == rate; i++ {
			p99 = max(p99, reviews[i].P99)
			if reviews[i].CPU > worst.CPU {
				worst = reviews[i]
			}
		}
		used := float64(rate) * worst.CPU.Seconds()
		working := max(1, int(math.Ceil(used/busiest)))
		request := max(leastCPU, roundUp(margin*1000*used/float64(working), cpuStep))
		rows = append(rows, []string{number(rate), cores(used), number(1 + working), fmt.Sprintf("%dm", request), ms(p99)})
	}
	return table(rows)
}

// bounds says what grows with what.
func bounds(f figures) string {
	var b strings.Builder
	add := func(format string, arguments ...any) { fmt.Fprintf(&b, "- "+format+"\n", arguments...) }
	if n := len(f.Namespaces); n > 1 {
		first, last := f.Namespaces[0], f.Namespaces[n-1]
		add("*Namespaces* bound the memory and the start: %s bytes of the heap for each. The leader labels and grants %s new ones a second, so %s are ready after %s. In etcd, one that opted in takes %s bytes more than another.",
			number(int(perNamespace(first, last, func(m memory) int64 { return m.Heap }))), rate(float64(last.New)/last.Granted.Seconds()), number(last.New), seconds(last.Granted), number(int(last.EtcdOurs)/last.New))
	}
	if n := len(f.Reviews); n > 0 {
		add("*Admissions* bound the CPU: %s for each at %s a second, with %s.", ms(f.Reviews[n-1].CPU), number(f.Reviews[n-1].Rate), f.Reviews[n-1].Kind)
	}
	if n := len(f.Creations); n > 0 {
		c := f.Creations[0]
		for _, other := range f.Creations {
			if other.Rate <= enoughForCPU {
				c = other
			}
		}
		add("*The API server* takes %s more of a processor for a pod that is wrapped, and %s for another, at %s a second.", ms(c.ServerOurs-c.ServerPlain), ms(c.ServerPlain), number(c.Rate))
	}
	if n := len(f.Images); n > 2 {
		first, last := f.Images[0], f.Images[n-1]
		add("*Images* add to the memory until the caches are full: %s of the heap after %s images.", mb(last.Injector.Heap-first.Injector.Heap), number(last.Images))
	}
	if n := len(f.Nodes); n > 1 {
		first, last := f.Nodes[0], f.Nodes[n-1]
		add("*Nodes* count for `delivery: auto`: %s bytes of the heap for each, and %s of a processor when one changes.", number(heapOfOne(first, last)), ms(last.Change))
	}
	if n := len(f.Claims); n > 1 {
		first, last := f.Claims[0], f.Claims[n-1]
		add("*Claims* count for `delivery: claim`: %s bytes of the heap and %s of etcd for each. %s new ones are ready after %s.",
			number(heapOfOne(first, last)), number(int(last.EtcdOurs)/last.New), number(last.New), seconds(last.Granted))
	}
	if n := len(f.Pods); n > 1 {
		first, last := f.Pods[0], f.Pods[n-1]
		add("*Pods that exist* bound nothing: the heap has %s without, and %s with %s.", mb(first.Injector.Heap), mb(last.Injector.Heap), number(last.Objects))
	}
	return b.String()
}

// enoughForCPU is the rate up to which a small machine isn't overloaded.
const enoughForCPU = 50

// heapOfOne returns the bytes of the heap for each object.
func heapOfOne(first, last grown) int {
	return int(last.Injector.Heap-first.Injector.Heap) / (last.Objects - first.Objects)
}

// between returns a value for a number of objects, on the line between the rows around it.
func between(rows []grown, objects int, of func(grown) float64) float64 {
	for i := 1; i < len(rows); i++ {
		if a, b := rows[i-1], rows[i]; objects <= b.Objects {
			share := float64(objects-a.Objects) / float64(b.Objects-a.Objects)
			return of(a) + share*(of(b)-of(a))
		}
	}
	return of(rows[len(rows)-1])
}

func roundUp(value float64, step int) int { return step * int(math.Ceil(value/float64(step))) }
