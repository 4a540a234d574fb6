// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

// render makes a table of each group of systems: of those that start a container, and
// of those that stop one. Ours is the first.
func (f *findings) render(all []*system) string {
	var b strings.Builder
	for _, event := range []string{started, stopped} {
		group := slices.DeleteFunc(slices.Clone(all), func(s *system) bool { return s.event != event })
		f.renderGroup(&b, event, group)
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "Times come from %d runs of each system on %d cores, each run in another order. Each hard case ran once; its result is what the second container does. The bench waits up to %v for a result.\n", f.turns, runtime.NumCPU(), watch)
	return b.String()
}

func (f *findings) renderGroup(b *strings.Builder, event string, group []*system) {
	row := func(first string, cell func(*system) string) {
		b.WriteString("| " + first)
		for _, s := range group {
			b.WriteString(" | " + cell(s))
		}
		b.WriteString(" |\n")
	}
	row("", func(s *system) string { return s.name })
	row("---", func(*system) string { return "---" })
	for _, percent := range []int{50, 90} {
		first := "from the end of the first container to the " + map[string]string{started: "start of the second one's command", stopped: "second one's SIGTERM"}[event]
		first += map[int]string{50: ", median", 90: ", p90"}[percent]
		row(first, func(s *system) string {
			switch {
			case s.why != "" && percent == 90:
				return "–"
			case s.why != "":
				return "not measured: " + strings.ReplaceAll(s.why, "|", `\|`)
			}
			return f.time(s, group[0], percent)
		})
	}
	for _, c := range hardCases {
		if c.only != "" && c.only != event {
			continue
		}
		row(c.name, func(s *system) string {
			v, tried := f.verdicts[s][c.name]
			switch {
			case !tried:
				return "–"
			case v.good:
				return "yes: " + v.text
			default:
				return "**no**: " + v.text
			}
		})
	}
}

// time is a percentile of a system's times, and how many of ours that is.
func (f *findings) time(s, ours *system, percent int) string {
	of := func(s *system) time.Duration { return framework.Percentile(f.times[s], percent) }
	text := ms(of(s))
	if s.asks && percent == 50 {
		text += " from the API server's event"
	}
	if s != ours && of(ours) > 0 {
		text += fmt.Sprintf(" (%.1f×)", float64(of(s))/float64(of(ours)))
	}
	return text
}
