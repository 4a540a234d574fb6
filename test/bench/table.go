// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/tools/benchmark/parse"

	"github.com/entrypointer/entrypointer/test/framework"
)

// shown are the benchmarks in the table, and how it calls them.
var (
	shown = []string{"BenchmarkMutation/decode", "BenchmarkMutation/inject", "BenchmarkMutation/patch", "BenchmarkRememberedLookup"}
	names = map[string]string{
		"BenchmarkMutation/decode":  "decoding the pod of a five-step TaskRun",
		"BenchmarkMutation/inject":  "wrapping this pod",
		"BenchmarkMutation/patch":   "computing and encoding the patch",
		"BenchmarkRememberedLookup": "lookup of an image that the same tenant looked up seconds ago",
	}
)

func render(functions parse.Set, c creations, l load) string {
	var b strings.Builder
	fmt.Fprintln(&b, "| what | figure |")
	fmt.Fprintln(&b, "| --- | --- |")
	for _, name := range shown {
		for full, runs := range functions {
			if strings.HasPrefix(full, name) {
				fmt.Fprintf(&b, "| %s | %.1f µs, %d allocations, %.1f KB |\n",
					names[name], runs[0].NsPerOp/1000, runs[0].AllocsPerOp, float64(runs[0].AllocedBytesPerOp)/1000)
			}
		}
	}
	fmt.Fprintf(&b, "| creating this pod (dry run), opted in : not opted in | median %s : %s = %.2f, p99 %s : %s |\n",
		ms(framework.Percentile(c.optedIn, 50)), ms(framework.Percentile(c.plain, 50)), float64(framework.Percentile(c.optedIn, 50))/float64(framework.Percentile(c.plain, 50)), ms(framework.Percentile(c.optedIn, 99)), ms(framework.Percentile(c.plain, 99)))
	fmt.Fprintf(&b, "| one replica at %d admissions a second for %v | %d answered, %d failed; median %s, p99 %s |\n",
		l.rate, l.duration, len(l.times), l.failed, ms(framework.Percentile(l.times, 50)), ms(framework.Percentile(l.times, 99)))
	fmt.Fprintf(&b, "| memory of this replica meanwhile (working set) | at most %s |\n", mib(l.peak))
	return b.String()
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

func mib(bytes int64) string { return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20)) }
