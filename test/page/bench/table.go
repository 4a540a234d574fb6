// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A row of the table says one thing of each system.
type row struct {
	name  string
	value func(figures) float64
	text  func(float64) string
}

// rows are those of the table of each log.
var rows = []row{
	{"first line seen", func(f figures) float64 { return f.first.Seconds() }, seconds},
	{"last line seen", func(f figures) float64 { return f.last.Seconds() }, seconds},
	{"longest task of the page", func(f figures) float64 { return f.longestTask.Seconds() }, seconds},
	{"elements of the page", func(f figures) float64 { return float64(f.elements) }, func(n float64) string { return fmt.Sprintf("%.0f", n) }},
	{"memory of the page's process", func(f figures) float64 { return float64(f.browser) }, megabytes},
	{"memory of the server", func(f figures) float64 { return float64(f.server) }, megabytes},
}

func seconds(s float64) string {
	if s == 0 {
		return "under 0.05 s" // the browser tells of no shorter task
	}
	return fmt.Sprintf("%.2f s", s)
}

func megabytes(b float64) string { return fmt.Sprintf("%.0f MB", b/1e6) }

// median returns the middle one of some values, and the smallest and the largest one.
func median(values []float64) (middle, least, most float64) {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]
}

// shown returns a cell: the median, and the range.
func shown(values []float64, text func(float64) string) (cell string, middle float64) {
	middle, least, most := median(values)
	if text(least) == text(most) {
		return text(middle), middle
	}
	return fmt.Sprintf("%s (%s to %s)", text(middle), strings.TrimSuffix(strings.TrimSuffix(text(least), " s"), " MB"), text(most)), middle
}

// render makes the table. A ratio is how many times as much the Dashboard takes.
func render(p plan, systems []system, all map[key]measured) string {
	var b strings.Builder
	b.WriteString("| lines | what |")
	rule := "| ---: | --- |"
	for n, s := range systems {
		fmt.Fprintf(&b, " %s |", s.name)
		rule += " ---: |"
		if n > 0 {
			b.WriteString(" ratio |")
			rule += " ---: |"
		}
	}
	b.WriteString("\n" + rule + "\n")
	for _, lines := range p.sizes {
		for _, r := range rows {
			fmt.Fprintf(&b, "| %d | %s |", lines, r.name)
			var ours float64
			for n, s := range systems {
				cell, middle, ratio := r.cells(p, all[key{lines, s.name}], ours)
				if n == 0 {
					ours, ratio = middle, ""
				}
				fmt.Fprintf(&b, " %s |%s", cell, ratio)
			}
			b.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, "\nMedians of %d runs in turns on %s, each with a new server and a new browser, and the range. Lines of %d bytes. A ratio says how many times as much the Dashboard takes.\n", p.runs, time.Now().UTC().Format(time.DateOnly), lineBytes)
	return b.String()
}

// cells returns what a system takes in its runs, the median of that, and a cell with the ratio to
// what ours takes. If it showed no last line, only its server's memory is known.
func (r row) cells(p plan, runs []figures, ours float64) (cell string, middle float64, ratio string) {
	values := []float64{}
	for _, f := range runs {
		values = append(values, r.value(f))
	}
	cell, middle = shown(values, r.text)
	unseen := runs[len(runs)-1].last == 0
	switch {
	case unseen && r.name == "last line seen":
		return fmt.Sprintf("not in %.0f s", p.patience.Seconds()), middle, fmt.Sprintf(" > %.0f |", p.patience.Seconds()/ours)
	case unseen && r.name != "memory of the server":
		return "not known", middle, " |"
	case ours == 0:
		return cell, middle, " |"
	default:
		return cell, middle, fmt.Sprintf(" %.1f |", middle/ours)
	}
}

// renderSearches makes the table of searches.
func renderSearches(p plan, all []searched) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| what | lines found | page | grep | ratio |\n| --- | ---: | ---: | ---: | ---: |\n")
	for _, s := range all {
		in := func(times []time.Duration) (values []float64) {
			for _, t := range times {
				values = append(values, t.Seconds())
			}
			return values
		}
		page, ours := shown(in(s.page), seconds)
		grep, theirs := shown(in(s.grep), seconds)
		what := "text"
		if s.isExpression {
			what = "expression"
		}
		fmt.Fprintf(&b, "| %s `%s` | %s | %s | %s | %.1f |\n", what, strings.ReplaceAll(s.text, "|", `\|`), s.matches, page, grep, ours/theirs)
	}
	fmt.Fprintf(&b, "\nMedians of %d runs in turns on %s, and the range, in a log of %.2f GB. A ratio says how many times as long the page takes as `grep -cF` or `grep -cE`, which reads a file.\n", p.runs, time.Now().UTC().Format(time.DateOnly), float64(p.searched)*lineBytes/1e9)
	return b.String()
}
