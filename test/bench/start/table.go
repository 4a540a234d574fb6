// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

// render makes the table.
func render(kinds []*kind, c copies) string {
	var b strings.Builder
	b.WriteString("| time from a pod's creation to the start of its command | on average | difference to unwrapped |\n| --- | ---: | ---: |\n")
	for i, k := range kinds {
		more := ""
		if i > 0 {
			mean, half := framework.Interval(differences(k.starts, kinds[0].starts))
			more = fmt.Sprintf("%.2f s ± %.2f", mean, half)
		}
		mean, _ := framework.Interval(secondsOf(k.starts))
		fmt.Fprintf(&b, "| %s | %.2f s | %s |\n", k.name, mean, more)
	}
	fmt.Fprintf(&b, "| the copier alone, copying %.1f MB | | %.1f ms |\n", float64(c.size)/1e6, 1000*framework.Percentile(slices.Sorted(slices.Values(c.times)), 50).Seconds())
	fmt.Fprintf(&b, "\n%d pods of each kind, run alternately on a node with %d cores that had all images; the intervals have %.0f %% confidence. The copier's time is the median of %d runs.\n",
		len(kinds[0].starts), runtime.NumCPU(), 100*framework.Confidence, len(c.times))
	return b.String()
}

// differences are those of pods that took turns, in seconds.
func differences(of, less []time.Duration) (all []float64) {
	for i := range min(len(of), len(less)) {
		all = append(all, (of[i] - less[i]).Seconds())
	}
	return all
}

func secondsOf(times []time.Duration) (all []float64) {
	for _, d := range times {
		all = append(all, d.Seconds())
	}
	return all
}
