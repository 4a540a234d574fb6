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

	"github.com/entrypointer/entrypointer/test/framework"
)

// render makes the table.
func render(f figures) string {
	var b strings.Builder
	b.WriteString("| |")
	for i, s := range f.sides {
		b.WriteString(" " + s.name + " |")
		if i > 0 {
			b.WriteString(" |")
		}
	}
	b.WriteString("\n| --- |" + strings.Repeat(" ---: |", 2*len(f.sides)-1) + "\n")
	row := func(what string, of func(*side) time.Duration, text func(time.Duration) string) {
		plain := of(f.plain())
		fmt.Fprintf(&b, "| %s | %s |", what, text(plain))
		for _, s := range f.sides[1:] {
			fmt.Fprintf(&b, " %s | %s |", text(of(s)), times(plain, of(s)))
		}
		b.WriteString("\n")
	}
	row("from the end of a step to the start of the next, on average", func(s *side) time.Duration { return mean(s.handOffs()) }, ms)
	row("median", func(s *side) time.Duration { return framework.Percentile(s.handOffs(), 50) }, ms)
	row("p99", func(s *side) time.Duration { return framework.Percentile(s.handOffs(), 99) }, ms)
	row("time of a TaskRun without its steps: to start its pod and to complete, on average", func(s *side) time.Duration { return mean(s.around()) }, seconds)
	for _, shape := range shapes {
		if shape.steps > 1 {
			row(fmt.Sprintf("%v, from the first to the last", shape), func(s *side) time.Duration { return mean(each(s.runs[shape], taskRun.phase)) }, seconds)
		}
		fmt.Fprintf(&b, "| TaskRun of %v, with all that it takes to start a pod | %s |", shape, seconds(mean(each(f.plain().runs[shape], taskRun.wall))))
		for _, s := range f.sides[1:] {
			fmt.Fprintf(&b, " %s | %v |", seconds(mean(each(s.runs[shape], taskRun.wall))), f.walls(s, shape))
		}
		b.WriteString("\n")
	}
	row(fmt.Sprintf("CPU time of a step that waits for %v", f.idle), func(s *side) time.Duration { return s.usage().CPU }, ms)
	fmt.Fprintf(&b, "| memory of this step (RSS) | %s | %s | |%s\n", mb(f.plain().usage().RSS), mb(f.wrapped().usage().RSS), strings.Repeat(" |", 2*len(f.sides)-4))
	fewest, most := f.runs()
	runs := fmt.Sprint(fewest)
	if most > fewest {
		runs = fmt.Sprintf("%d to %d", fewest, most)
	}
	fmt.Fprintf(&b, "\nAverages of %s TaskRuns of each kind, and of %d hand-offs, on each side, run alternately on a node with %d cores, and begun at moments that are spread over a second. "+
		"The ratios of whole TaskRuns come from adjacent runs, with their %.0f %% confidence interval; "+
		"TaskRuns whose interval included 1 ran more often.\n",
		runs, len(f.wrapped().handOffs()), runtime.NumCPU(), 100*framework.Confidence)
	return b.String()
}

// runs are how often TaskRuns ran, those of the shape that ran least, and most.
func (f figures) runs() (fewest, most int) {
	var counts []int
	for _, runs := range f.plain().runs {
		counts = append(counts, len(runs))
	}
	return slices.Min(counts), slices.Max(counts)
}

// tellingRows begin the rows of the table that the README tells: what is gained, the
// gain of a TaskRun of many steps, and the loss of a TaskRun of few steps.
var tellingRows = []struct{ begin, subject string }{
	{"| from the end of a step to the start of the next, on average |", "From the end of a step to the start of the next, on average"},
	{"| TaskRun of 8 steps of 50 to 240 ms,", "A whole TaskRun of 8 steps of 50 to 240 ms"},
	{"| TaskRun of 2 steps of 50 to 240 ms,", "A whole TaskRun of 2 steps of 50 to 240 ms"},
}

// telling returns the telling rows of a table of three sides as a list for the README,
// with each ratio in words: its direction can't be mistaken.
func telling(table string) string {
	var b strings.Builder
	for _, row := range tellingRows {
		for line := range strings.Lines(table) {
			if !strings.HasPrefix(line, row.begin) {
				continue
			}
			cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(line), " |"), " | ")
			const plain, wrapped, ratio, mounted, mountedRatio = 1, 2, 3, 4, 5
			fmt.Fprintf(&b, "- %s: %s by Tekton alone, **%s** with entrypointer, %s. With `delivery: image-volume`: %s, %s.\n",
				row.subject, cells[plain], cells[wrapped], asFast(cells[ratio]), cells[mounted], asFast(cells[mountedRatio]))
		}
	}
	return b.String()
}

// asFast says in words what the ratio of a row means, with its interval if it has one.
func asFast(ratio string) string {
	mean, interval, _ := strings.Cut(ratio, "×")
	return mean + " times as fast" + interval
}

// String is how a shape is told of in the table.
func (s shape) String() string {
	switch {
	case s.steps == 1:
		return "1 step"
	case s.alike:
		return fmt.Sprintf("%d steps of %d ms each", s.steps, s.takes(0).Milliseconds())
	}
	return fmt.Sprintf("%d steps of 50 to 240 ms", s.steps)
}

// handOffs are those of a side's TaskRuns whose steps differ, sorted: where they
// are alike, so are Tekton's hand-offs, by chance.
func (s *side) handOffs() (all []time.Duration) {
	for shape, runs := range s.runs {
		if shape.alike {
			continue
		}
		for _, r := range runs {
			all = append(all, r.handOffs()...)
		}
	}
	slices.Sort(all)
	return all
}

// around is what the TaskRuns take before the first step and after the last, a
// matter of whole seconds: the kubelet looks at its pods once a second.
func (s *side) around() (all []time.Duration) {
	for _, runs := range s.runs {
		for _, r := range runs {
			all = append(all, r.wall()-r.phase())
		}
	}
	return all
}

func mean(times []time.Duration) (sum time.Duration) {
	for _, d := range times {
		sum += d
	}
	return sum / time.Duration(max(len(times), 1))
}

// usage is that of a step that waits, on average.
func (s *side) usage() (mean framework.Usage) {
	for _, u := range s.waiting {
		mean.CPU += u.CPU / time.Duration(len(s.waiting))
		mean.RSS += u.RSS / int64(len(s.waiting))
	}
	return mean
}

// each is a time of each of the TaskRuns.
func each(runs []taskRun, of func(taskRun) time.Duration) (all []time.Duration) {
	for _, r := range runs {
		all = append(all, of(r))
	}
	return all
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

func ms(d time.Duration) string { return measured(d, fmt.Sprintf("%.1f ms", d.Seconds()*1000)) }

func seconds(d time.Duration) string { return measured(d, fmt.Sprintf("%.2f s", d.Seconds())) }

// measured is text, or nothing for what wasn't measured on a side.
func measured(d time.Duration, text string) string {
	if d == 0 {
		return ""
	}
	return text
}

func mb(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }
