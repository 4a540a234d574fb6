// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// render makes the table: a row for each transport, with what it does for messages of
// each size.
func render(results []result, lasts time.Duration) string {
	var b strings.Builder
	var sizes []int
	var rows []string
	for _, r := range results {
		if !slices.Contains(sizes, r.Size) {
			sizes = append(sizes, r.Size)
		}
		if !slices.Contains(rows, r.Transport) {
			rows = append(rows, r.Transport)
		}
	}
	header, line := "| |", "| --- |"
	for _, size := range sizes {
		header += fmt.Sprintf(" messages of %s, a second | round trip, median | p99 |", bytes(size))
		line += strings.Repeat(" ---: |", 3)
	}
	fmt.Fprintf(&b, "%s\n%s\n", header, line)
	for _, name := range rows {
		fmt.Fprintf(&b, "| %s |", name)
		for _, size := range sizes {
			at := slices.IndexFunc(results, func(r result) bool { return r.Transport == name && r.Size == size })
			if at < 0 {
				b.WriteString(" | | |")
				continue
			}
			r := results[at]
			fmt.Fprintf(&b, " %s | %s | %s |", thousands(r.PerSecond), micros(r.Median), micros(r.P99))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "\nTwo containers of one pod, on a node with %d cores that the cluster shares; %v for each figure. A message is one write(2), or one copy. No message is batched.\n", runtime.NumCPU(), lasts)
	return b.String()
}

func bytes(n int) string {
	if n >= 1<<10 && n%(1<<10) == 0 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// thousands are what is shown of large numbers, as they aren't more exact than that.
func thousands(n float64) string {
	switch k := int(n / 1000); {
	case k >= 1000:
		return fmt.Sprintf("%d,%03d,000", k/1000, k%1000)
	case k >= 10:
		return fmt.Sprintf("%d,000", k)
	default:
		return fmt.Sprintf("%.0f", n)
	}
}

func micros(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d.Nanoseconds())/1000) }
