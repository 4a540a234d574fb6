// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/test/kit"
)

// render makes the table.
func render(f figures) string {
	var b strings.Builder
	fmt.Fprintln(&b, "| | Tekton alone | with entrypointer | |")
	fmt.Fprintln(&b, "| --- | ---: | ---: | ---: |")
	row := func(what string, plain, wrapped time.Duration, text func(time.Duration) string) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", what, text(plain), text(wrapped), times(plain, wrapped))
	}
	plain, wrapped := f.plain.handOffs(), f.wrapped.handOffs()
	row("from the end of a step to the start of the next, on average", mean(plain), mean(wrapped), ms)
	row("median", kit.Percentile(plain, 50), kit.Percentile(wrapped, 50), ms)
	row("p99", kit.Percentile(plain, 99), kit.Percentile(wrapped, 99), ms)
	for _, length := range lengths {
		p, w := f.plain.runs[length], f.wrapped.runs[length]
		if length > 1 {
			row(fmt.Sprintf("%s of 50 to 240 ms, from the first to the last", counted(length)), middle(p, taskRun.phase), middle(w, taskRun.phase), seconds)
		}
		row(fmt.Sprintf("TaskRun of %s, with all that it takes to start a pod", counted(length)), middle(p, taskRun.wall), middle(w, taskRun.wall), seconds)
	}
	pu, wu := f.plain.usage(), f.wrapped.usage()
	row(fmt.Sprintf("CPU time of a step that waits for %v", f.idle), pu.CPU, wu.CPU, ms)
	fmt.Fprintf(&b, "| its memory (RSS) | %s | %s | |\n", mb(pu.RSS), mb(wu.RSS))
	fmt.Fprintf(&b, "\nMedians of %d TaskRuns of each length, and of %d hand-offs, on each side, which took turns on a node with %d cores.\n",
		f.rounds, len(wrapped), runtime.NumCPU())
	return b.String()
}

// handOffs are those of all of a side's TaskRuns, sorted.
func (s side) handOffs() (all []time.Duration) {
	for _, runs := range s.runs {
		for _, r := range runs {
			all = append(all, r.handOffs()...)
		}
	}
	slices.Sort(all)
	return all
}

func mean(times []time.Duration) (sum time.Duration) {
	for _, d := range times {
		sum += d
	}
	return sum / time.Duration(max(len(times), 1))
}

// usage is that of a step that waits, on average.
func (s side) usage() (mean kit.Usage) {
	for _, u := range s.waiting {
		mean.CPU += u.CPU / time.Duration(len(s.waiting))
		mean.RSS += u.RSS / int64(len(s.waiting))
	}
	return mean
}

// middle is the median of a time of TaskRuns.
func middle(runs []taskRun, of func(taskRun) time.Duration) time.Duration {
	var all []time.Duration
	for _, r := range runs {
		all = append(all, of(r))
	}
	slices.Sort(all)
	return kit.Percentile(all, 50)
}

// median is the TaskRun that took neither longest nor shortest.
func median(runs []taskRun) taskRun {
	sorted := slices.SortedFunc(slices.Values(runs), func(a, b taskRun) int { return cmp.Compare(a.wall(), b.wall()) })
	return sorted[len(sorted)/2]
}

// times says how much shorter, or longer, the second time is.
func times(plain, wrapped time.Duration) string {
	if wrapped <= 0 || plain <= 0 {
		return ""
	}
	if ratio := float64(plain) / float64(wrapped); ratio < 10 {
		return fmt.Sprintf("%.1f×", ratio)
	}
	return fmt.Sprintf("%d×", plain/wrapped)
}

func counted(steps int) string {
	if steps == 1 {
		return "1 step"
	}
	return fmt.Sprint(steps, " steps")
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func mb(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }
