// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A row is what users saw of a drill.
type row struct {
	faults          []fault
	began           time.Time
	optedIn, others side
	// healed is how long it took until all worked, negative if it never did.
	healed time.Duration
}

func (r row) name() string { return names(r.faults) }

// any says whether something holds for one of the faults.
func (r row) any(of func(fault) bool) bool { return slices.ContainsFunc(r.faults, of) }

// due are what users have to expect.
func (r row) due() (refusals, unwrapped, everybody bool) {
	return r.any(func(f fault) bool { return f.refusals }), r.any(func(f fault) bool { return f.unwrapped }), r.any(func(f fault) bool { return f.everybody })
}

// problems are the goals that were missed.
func (r row) problems() (all []string) {
	refusals, unwrapped, everybody := r.due()
	add := func(bad bool, format string, args ...any) {
		if bad {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	in, out := r.optedIn, r.others
	add(in.unwrapped > 0 && !unwrapped, "%d pods ran unwrapped", in.unwrapped)
	add(in.refused+in.retried > 0 && !refusals, "%d requests and %d pods of controllers were refused", in.refused, in.retried)
	add(in.missing > 0, "%d lines of output are missing without account", in.missing)
	add(in.runs > 0 && !refusals && !everybody, "%d TaskRuns failed", in.runs)
	add(in.lost > 0, "%d pods were lost", in.lost)
	add(in.unanswered > 0 && !everybody, "%d requests weren't answered", in.unanswered)
	add(out.refused+out.retried > 0, "outside, %d requests and %d pods of controllers were refused", out.refused, out.retried)
	add(!everybody && out.unanswered+out.runs+out.lost > 0, "outside, %d requests weren't answered, %d TaskRuns failed, and %d pods were lost", out.unanswered, out.runs, out.lost)
	add(r.healed < 0, "it didn't heal within %v", recovery)
	add(r.healed > goal, "it took %v to heal", r.healed.Round(time.Second))
	return all
}

// String is what is printed after a drill.
func (r row) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, from %s on: healed after %s\n", r.name(), r.began.Format(time.TimeOnly), healed(r.healed))
	for _, s := range []struct {
		name string
		side
	}{{"opted in", r.optedIn}, {"others", r.others}} {
		fmt.Fprintf(&b, "  %-8s %d objects, %d dry runs: refused %d, of controllers %d, unanswered %d, unwrapped %d, TaskRuns failed %d, lost %d, late %d (%v), lines missing %d, marked %d\n",
			s.name, s.objects, s.dryRuns, s.refused, s.retried, s.unanswered, s.unwrapped, s.runs, s.lost, s.late, s.longest.Round(time.Second), s.missing, s.marked)
		for _, example := range s.examples {
			fmt.Fprintf(&b, "    %s\n", example)
		}
	}
	for _, problem := range r.problems() {
		fmt.Fprintf(&b, "  ✗ %s\n", problem)
	}
	return b.String()
}

// render is the table of docs/chaos.md. In each cell with two figures, the first is of the
// namespace that opted in.
func render(rows []row) string {
	var b strings.Builder
	b.WriteString(header)
	for _, r := range rows {
		b.WriteString(r.line())
	}
	return b.String()
}

// header is what render begins with.
const header = "| fault | objects | dry runs | refused | refused to controllers | unanswered | unwrapped | TaskRuns failed | lost | late | longest start | lines missing, marked | healed after |\n" +
	"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"

// line is a row of the table.
func (r row) line() string {
	refusals, unwrapped, _ := r.due()
	both := func(of func(side) int) string { return fmt.Sprintf("%d : %d", of(r.optedIn), of(r.others)) }
	due := func(due bool, figures string) string {
		if due {
			return figures + " (due)"
		}
		return figures
	}
	cells := []string{
		"`" + strings.ReplaceAll(r.name(), " + ", "` and `") + "`",
		both(func(s side) int { return s.objects }),
		both(func(s side) int { return s.dryRuns }),
		due(refusals && r.optedIn.refused > 0, both(func(s side) int { return s.refused })),
		due(refusals && r.optedIn.retried > 0, both(func(s side) int { return s.retried })),
		both(func(s side) int { return s.unanswered }),
		due(unwrapped && r.optedIn.unwrapped > 0, fmt.Sprint(r.optedIn.unwrapped)),
		due(refusals && r.optedIn.runs > 0, both(func(s side) int { return s.runs })),
		both(func(s side) int { return s.lost }),
		both(func(s side) int { return s.late }),
		fmt.Sprintf("%.0f s : %.0f s", r.optedIn.longest.Seconds(), r.others.longest.Seconds()),
		fmt.Sprintf("%d, %d", r.optedIn.missing, r.optedIn.marked),
		healed(r.healed),
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// merge puts rows into a table that render has made: in place of those of the same faults,
// or behind them all. So a table can be made by several runs.
func merge(table string, rows []row) string {
	former := slices.Collect(strings.Lines(strings.TrimPrefix(table, header)))
	for _, r := range rows {
		line := r.line()
		fault, _, _ := strings.Cut(line, " | ")
		i := slices.IndexFunc(former, func(l string) bool { return strings.HasPrefix(l, fault+" | ") })
		if i < 0 {
			former = append(former, line)
		} else {
			former[i] = line
		}
	}
	return header + strings.Join(former, "")
}

// renderFaults is the list in docs/chaos.md.
func renderFaults() string {
	var b strings.Builder
	fmt.Fprintln(&b, "| fault | what happens | what is due |")
	fmt.Fprintln(&b, "| --- | --- | --- |")
	for _, f := range faults {
		var due []string
		for what, is := range map[string]bool{
			"pods that must be wrapped are refused": f.refusals, "pods run unwrapped": f.unwrapped, "everybody notices": f.everybody,
		} {
			if is {
				due = append(due, what)
			}
		}
		slices.Sort(due)
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.name, f.what, strings.Join(due, ", "))
	}
	return b.String()
}

func healed(after time.Duration) string {
	if after < 0 {
		return "never"
	}
	return fmt.Sprintf("%.0f s", after.Seconds())
}
