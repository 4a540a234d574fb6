// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A plan is the extent of a run.
type plan struct {
	name       string
	limit      time.Duration // of the run
	namespaces []int         // opted in, and as many that aren't
	pods       []int
	nodes      []int
	claims     []int
	starts     int // of which the time is the median

	rates     []int         // admissions a second
	loadLasts time.Duration // a load of reviews
	block     time.Duration // a block of creations
	pairs     int           // of blocks
	least     int           // requests of a load
	images    []int

	streams    []int         // of the log service
	linger     time.Duration // between two parts of a stream
	streamLast time.Duration // how long streams print while they are measured
}

// whole takes 25 minutes on an idle machine of two cores. The caches of lookups are full with 50,000 images.
var whole = plan{
	name: "whole", limit: 100 * time.Minute,
	namespaces: []int{0, 1000, 10_000}, pods: []int{0, 10_000, 50_000}, nodes: []int{0, 1000, 5000}, claims: []int{0, 1000}, starts: 3,
	rates: []int{1, 50, 200, 500}, loadLasts: 10 * time.Second, block: 3 * time.Second, pairs: 5, least: 20, images: []int{1000, 25_000, 50_000, 75_000, 100_000},
	streams: []int{10_000}, linger: 30 * time.Second, streamLast: 20 * time.Second,
}

// brief takes five minutes.
var brief = plan{
	name: "short", limit: 15 * time.Minute,
	namespaces: []int{0, 200, 1000}, pods: []int{0, 2000}, nodes: []int{0, 500}, claims: []int{0, 100}, starts: 1,
	rates: []int{50, 200}, loadLasts: 2 * time.Second, block: time.Second, pairs: 3, least: 20, images: []int{500, 1500},
	streams: []int{1000}, linger: 5 * time.Second, streamLast: 5 * time.Second,
}

// sample is as small as what it asserts allows.
var sample = plan{
	name: "sample", limit: 10 * time.Minute,
	namespaces: []int{0, 300}, pods: []int{0, 500}, nodes: []int{20}, claims: []int{10}, starts: 1,
	rates: []int{20}, loadLasts: time.Second, block: time.Second, pairs: 2, least: 20, images: []int{100, 200},
	streams: []int{100}, linger: time.Second, streamLast: 2 * time.Second,
}

// settleLimit is the time in which the injector has to have done its work.
const settleLimit = 10 * time.Minute

// A part measures the growth with one kind of objects. The objects of former parts stay.
type part struct {
	name    string
	measure func(context.Context, *world, *figures) error
}

var parts = []part{
	{"namespaces", measureNamespaces},
	{"nodes", measureNodes},
	{"creations", measureCreations},
	{"reviews", measureReviews},
	{"images", measureImages},
	{"claims", measureClaims},
	{"logs", measureLogs},
	{"pods", measurePods},
}

func partNames() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

func (p part) chosen(only string) bool {
	return only == "" || slices.Contains(strings.Split(only, ","), p.name)
}

func checkParts(only string) error {
	for name := range strings.SplitSeq(only, ",") {
		if only != "" && !slices.Contains(partNames(), name) {
			return fmt.Errorf("choosing parts: there is no part %q; name some of %s", name, strings.Join(partNames(), ", "))
		}
	}
	return nil
}

// figures are what was measured. Times are in nanoseconds.
type figures struct {
	Extent     string // the name of the plan
	Parts      []record
	Namespaces []grown     `json:",omitempty"`
	Pods       []grown     `json:",omitempty"`
	Nodes      []grown     `json:",omitempty"`
	Claims     []grown     `json:",omitempty"`
	Creations  []created   `json:",omitempty"`
	Reviews    []loaded    `json:",omitempty"`
	Images     []imagesRow `json:",omitempty"`
	Logs       []logged    `json:",omitempty"`
}
