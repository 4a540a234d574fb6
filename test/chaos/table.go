// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A row is what users saw of a drill.
type row struct {
	faults          []fault
	began           time.Time
	lasting         time.Duration
	workers         int         // nodes on which pods run
	kills           []time.Time // of an injector while others run
	optedIn, others side
}

func (r row) name() string { return names(r.faults) }

// sideOf is that of a namespace.
func sideOf(r *row, p place) *side {
	if p == plain {
		return &r.others
	}
	return &r.optedIn
}

// any says whether something holds for one of the faults.
func (r row) any(of func(fault) bool) bool { return slices.ContainsFunc(r.faults, of) }

// due are what users have to expect.
func (r row) due() (due fault) {
	for _, f := range r.faults {
		due.taskRuns = due.taskRuns || f.taskRuns
		due.refusals, due.lookups = due.refusals || f.refusals, due.lookups || f.lookups || f.refusals || f.everybody
		due.unwrapped, due.everybody, due.cut = due.unwrapped || f.unwrapped, due.everybody || f.everybody, due.cut || f.cut
	}
	return due
}

// problems are the goals that were missed.
func (r row) problems() (missed []string) {
	due := r.due()
	add := func(bad bool, format string, args ...any) {
		if bad {
			missed = append(missed, fmt.Sprintf(format, args...))
		}
	}
	in, out := r.optedIn, r.others
	if due.cut { // what controllers try again has no time of its own
		in.refused, in.lookups, in.retried = in.refused-in.cut, in.lookups-in.cutLookups, 0
	}
	add(in.unwrapped > 0 && !due.unwrapped, "%d pods ran unwrapped", in.unwrapped)
	add(in.refused+in.retried > 0 && !due.refusals, "%d requests and %d pods of controllers were refused", in.refused, in.retried)
	add(in.lookups > 0 && !due.lookups, "%d pods were refused whose image is looked up by tag", in.lookups)
	add(in.missing > 0, "%d lines of output are missing without account", in.missing)
	add(in.runs > 0 && !due.failedTaskRuns(), "%d TaskRuns failed", in.runs)
	add(due.taskRuns && in.byPolicy == 0, "no TaskRun was wrapped by the API server")
	add(in.lost > 0 && !due.everybody, "%d pods were lost", in.lost)
	add(in.unanswered > 0 && !due.everybody, "%d requests weren't answered", in.unanswered)
	add(out.refused+out.lookups+out.retried > 0, "outside, %d requests and %d pods of controllers were refused", out.refused+out.lookups, out.retried)
	add(!due.everybody && out.unanswered+out.runs+out.lost > 0, "outside, %d requests weren't answered, %d TaskRuns failed, and %d pods were lost", out.unanswered, out.runs, out.lost)
	add(in.healed < 0, "it didn't heal within %v", recovery)
	add(out.healed < 0, "outside, it didn't heal within %v", recovery)
	// What takes longer outside as well is not of our making.
	add(in.healed-max(out.healed, 0) > goal, "it took %v to heal, and outside %v", in.healed.Round(time.Second), out.healed.Round(time.Second))
	return missed
}

// String is what is printed after a drill.
func (r row) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, from %s on: healed after %s\n", r.name(), r.began.Format(time.TimeOnly), r.both(healedAfter))
	for _, s := range []struct {
		name string
		side
	}{{"opted in", r.optedIn}, {"others", r.others}} {
		fmt.Fprintf(&b, "  %-8s %d objects, %d dry runs: refused %d, lookups %d, of controllers %d, unanswered %d, unwrapped %d, TaskRuns failed %d, by policy %d, lost %d, late %d (%v), lines missing %d, marked %d\n",
			s.name, s.objects, s.dryRuns, s.refused, s.lookups, s.retried, s.unanswered, s.unwrapped, s.runs, s.byPolicy, s.lost, s.late, s.longest.Round(time.Second), s.missing, s.marked)
		for _, example := range s.examples {
			fmt.Fprintf(&b, "    %s\n", example)
		}
	}
	for _, problem := range r.problems() {
		fmt.Fprintf(&b, "  ✗ %s\n", problem)
	}
	return b.String()
}

// both is a cell of the namespaces that opted in, and of the other one.
func (r row) both(of func(side) string) string { return of(r.optedIn) + " : " + of(r.others) }

func healedAfter(s side) string {
	if s.healed < 0 {
		return "never"
	}
	return fmt.Sprintf("%.0f s", s.healed.Seconds())
}

// A column of the table of docs/chaos.md. In a cell with two figures, the first is of the
// namespaces that opted in.
type column struct {
	title string
	cell  func(row) string
}

// figure is a column of both sides, whose figure is due in some rows.
func figure(title string, of func(side) int, due func(fault) bool) column {
	return column{title, func(r row) string {
		cell := r.both(func(s side) string { return strconv.Itoa(of(s)) })
		if of(r.optedIn) > 0 && due != nil && due(r.due()) {
			cell += " (due)"
		}
		return cell
	}}
}

var columns = []column{
	{"fault", func(r row) string { return "`" + strings.ReplaceAll(r.name(), " + ", "` and `") + "`" }},
	figure("objects", func(s side) int { return s.objects }, nil),
	figure("dry runs", func(s side) int { return s.dryRuns }, nil),
	figure("refused", func(s side) int { return s.refused }, func(due fault) bool { return due.refusals || due.cut }),
	figure("lookups refused", func(s side) int { return s.lookups }, func(due fault) bool { return due.lookups || due.cut }),
	figure("refused to controllers", func(s side) int { return s.retried }, func(due fault) bool { return due.refusals || due.cut }),
	figure("unanswered", func(s side) int { return s.unanswered }, func(due fault) bool { return due.everybody }),
	{"unwrapped", func(r row) string {
		if r.optedIn.unwrapped > 0 && r.due().unwrapped {
			return fmt.Sprintf("%d (due)", r.optedIn.unwrapped)
		}
		return strconv.Itoa(r.optedIn.unwrapped)
	}},
	figure("TaskRuns failed", func(s side) int { return s.runs }, fault.failedTaskRuns),
	figure("lost", func(s side) int { return s.lost }, func(due fault) bool { return due.everybody }),
	figure("late", func(s side) int { return s.late }, nil),
	{"longest start", func(r row) string {
		return r.both(func(s side) string { return fmt.Sprintf("%.0f s", s.longest.Seconds()) })
	}},
	{"lines missing, marked", func(r row) string { return fmt.Sprintf("%d, %d", r.optedIn.missing, r.optedIn.marked) }},
	{"healed after", func(r row) string { return r.both(healedAfter) }},
	{"run", func(r row) string {
		nodes := ""
		if r.workers > 1 {
			nodes = fmt.Sprintf("%d workers, ", r.workers)
		}
		return fmt.Sprintf("%s, %v, %s%d cores", r.began.UTC().Format(time.DateOnly), r.lasting, nodes, runtime.NumCPU())
	}},
}

// header is what the table begins with.
func header() string {
	var titles, lines strings.Builder
	for i, c := range columns {
		fmt.Fprintf(&titles, "| %s ", c.title)
		if lines.WriteString("| ---"); i > 0 {
			lines.WriteString(":")
		}
		lines.WriteString(" ")
	}
	return titles.String() + "|\n" + lines.String() + "|\n"
}

// line is a row of the table.
func (r row) line() string {
	var b strings.Builder
	for _, c := range columns {
		b.WriteString("| " + c.cell(r) + " ")
	}
	return b.String() + "|\n"
}

// merge puts rows into the section of the page that it has made before, in place of those of
// the same faults, so that a table can be made by several runs. Rows are in the order of the
// faults, and pairs follow. Below, it says what wasn't run.
func merge(section string, rows []row) string {
	former := map[string]string{}
	if rest, same := strings.CutPrefix(section, header()); same { // or the columns are others
		for line := range strings.Lines(rest) {
			if fault, _, isRow := strings.Cut(line, " | "); isRow {
				former[fault] = line
			}
		}
	}
	for _, r := range rows {
		line := r.line()
		fault, _, _ := strings.Cut(line, " | ")
		former[fault] = line
	}
	table, missing := header(), []string{}
	for _, f := range faults {
		fault := "| `" + f.name + "`"
		if former[fault] == "" {
			missing = append(missing, "`"+f.name+"`")
		}
		table += former[fault]
		delete(former, fault)
	}
	for _, fault := range slices.Sorted(maps.Keys(former)) {
		table += former[fault]
	}
	if len(missing) > 0 {
		table += "\nNot run: " + strings.Join(missing, ", ") + ".\n"
	}
	return table
}

// renderFaults is the list in docs/chaos.md.
func renderFaults() string {
	var b strings.Builder
	fmt.Fprintln(&b, "| fault | what happens | what is due |")
	fmt.Fprintln(&b, "| --- | --- | --- |")
	for _, f := range faults {
		var due []string
		for what, is := range map[string]bool{
			"pods that must be wrapped are refused": f.refusals && !f.taskRuns, "pods that must be wrapped are refused, but for those of TaskRuns": f.taskRuns, "pods run unwrapped": f.unwrapped, "everybody notices": f.everybody,
			"pods are refused whose image is looked up by its tag":                                                       f.lookups,
			"pods are refused whose request is at the injector that is killed, or reaches it within " + dropped.String(): f.cut,
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
