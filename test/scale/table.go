// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

// What a run writes, by the paths in the repository.
const page, data, picture = "docs/scale.md", "docs/scale.json", "docs/scale.svg"

// A section is a table of the page, "" if nothing was measured for it.
type section struct{ name, text string }

func sections(f figures) []section {
	return []section{
		{"scale-goals", renderGoals(f)},
		{"scale-namespaces", renderNamespaces(f.Namespaces)},
		{"scale-pods", renderPods(f.Pods)},
		{"scale-nodes", renderNodes(f.Nodes)},
		{"scale-creations", renderCreations(f.Creations)},
		{"scale-reviews", renderReviews(f.Reviews)},
		{"scale-images", renderImages(f.Images)},
	}
}

// render returns all tables.
func render(f figures) string {
	var b strings.Builder
	for _, s := range sections(f) {
		if s.text != "" {
			fmt.Fprintf(&b, "%s\n", s.text)
		}
	}
	return b.String()
}

// table renders rows, of which the first is the head. All columns but the first are numbers.
func table(rows [][]string) string {
	if len(rows) < 2 {
		return ""
	}
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "| ---: |%s\n", strings.Repeat(" ---: |", len(row)-1))
		}
	}
	return b.String()
}

// heads returns the heads of the columns that all objects have.
func heads(objects string) []string {
	return []string{objects, "from start to ready (range)", "from start to idle", "CPU until then", "reachable heap", "RSS", "highest RSS", "API server's RSS", "etcd"}
}

func renderNamespaces(grown []grown) string {
	rows := [][]string{append(heads("namespaces opted in, and as many not"), "of that by us, for a new one that opted in", "labels and grants of the new ones")}
	for _, g := range grown {
		ours, granted := "", ""
		if g.New > 0 {
			ours, granted = fmt.Sprintf("%d bytes", g.EtcdOurs/int64(g.New)), seconds(g.Granted)
		}
		rows = append(rows, append(g.columns(), ours, granted))
	}
	return table(rows)
}

func renderPods(grown []grown) string {
	rows := [][]string{heads("pods")}
	for _, g := range grown {
		rows = append(rows, g.columns())
	}
	return table(rows)
}

func renderNodes(grown []grown) string {
	rows := [][]string{append(heads("nodes"), "CPU for a change of a node")}
	for _, g := range grown {
		change := ""
		if g.Change > 0 {
			change = ms(g.Change)
		}
		rows = append(rows, append(g.columns(), change))
	}
	return table(rows)
}

func (g grown) columns() []string {
	ready := seconds(g.ready())
	if n := len(g.Ready); n > 1 {
		ready += fmt.Sprintf(" (%s to %s)", seconds(g.Ready[0]), seconds(g.Ready[n-1]))
	}
	return []string{
		number(g.Objects), ready, seconds(g.Settled), seconds(g.CPU),
		mb(g.Injector.Heap), mb(g.Injector.RSS), mb(g.Injector.Highest), mb(g.APIServer), mb(g.Etcd),
	}
}

// ready returns the median.
func (g grown) ready() time.Duration { return framework.Percentile(g.Ready, 50) }

func renderCreations(created []created) string {
	rows := [][]string{{
		"pods a second", "not opted in: median", "p99", "opted in: median", "p99", "median of ours more (95%)", "p99 of ours more (95%)",
		"API server's CPU for a pod, not opted in", "opted in", "injector's CPU for a pod", "failed",
	}}
	for _, c := range created {
		rows = append(rows, []string{
			number(c.Rate), ms(c.PlainP50), ms(c.PlainP99), ms(c.OursP50), ms(c.OursP99),
			ms(c.Added) + " ± " + ms(c.AddedHalf), ms(c.AddedP99) + " ± " + ms(c.AddedP99Half),
			ms(c.ServerPlain), ms(c.ServerOurs), ms(c.Injector), number(c.Failed),
		})
	}
	return table(rows)
}

func renderReviews(reviews []loaded) string {
	rows := [][]string{{"reviews a second", "of pods with", "answered", "failed", "median", "p99", "injector's CPU for a review", "reachable heap", "RSS", "highest RSS"}}
	for _, l := range reviews {
		rows = append(rows, append([]string{number(l.Rate), l.Kind}, l.columns()...))
	}
	return table(rows)
}

func renderImages(images []imagesRow) string {
	rows := [][]string{{"images", "reviews a second", "answered", "failed", "median", "p99", "injector's CPU for a review", "reachable heap", "RSS", "highest RSS"}}
	for _, i := range images {
		rows = append(rows, append([]string{number(i.Images), number(i.Rate)}, i.columns()...))
	}
	return table(rows)
}

func (l loaded) columns() []string {
	return []string{number(l.Answered), number(l.Failed), ms(l.P50), ms(l.P99), ms(l.CPU), mb(l.Injector.Heap), mb(l.Injector.RSS), mb(l.Injector.Highest)}
}

// The goals.
const (
	namespaceGoal = 1024 // bytes
	readyGoal     = 10 * time.Second
	oursGoal      = 10 * time.Millisecond
	podsGoal      = 0.05 // of the heap
)

// renderGoals compares what was measured with the goals.
func renderGoals(f figures) string {
	var goals []string
	add := func(goal string, met bool, found string, arguments ...any) {
		verdict := "missed"
		if met {
			verdict = "met"
		}
		goals = append(goals, fmt.Sprintf("- *%s*: %s: %s.\n", goal, verdict, fmt.Sprintf(found, arguments...)))
	}
	if n := len(f.Namespaces); n > 1 {
		first, last := f.Namespaces[0], f.Namespaces[n-1]
		heap := perNamespace(first, last, func(m memory) int64 { return m.Heap })
		add("Memory that doesn't grow but for 1 KiB a namespace", heap <= namespaceGoal,
			"%d bytes of the heap, and %d of RSS, for each of %s namespaces, half of which opted in",
			heap, perNamespace(first, last, func(m memory) int64 { return m.RSS }), number(2*last.Objects))
		add("Ready within 10 s", last.ready() < readyGoal, "after %s, with %s namespaces that opted in and as many that didn't", seconds(last.ready()), number(last.Objects))
	}
	if n := len(f.Reviews); n > 0 {
		most := f.Reviews[n-1].Rate
		var worst loaded
		for _, l := range f.Reviews {
			if l.Rate == most && l.P99 > worst.P99 {
				worst = l
			}
		}
		add("A p99 of our part under 10 ms, with 500 admissions a second on one core", worst.P99 < oursGoal && most == 500,
			"%s at %d a second, with %s", ms(worst.P99), most, worst.Kind)
	}
	if n := len(f.Pods); n > 1 {
		first, last := f.Pods[0].Injector.Heap, f.Pods[n-1].Injector.Heap
		add("Nothing grows with the pods that exist", float64(last-first) < podsGoal*float64(first),
			"the heap has %s without pods, and %s with %s", mb(first), mb(last), number(f.Pods[n-1].Objects))
	}
	return strings.Join(goals, "")
}

// perNamespace returns the growth of a kind of memory for each namespace.
func perNamespace(first, last grown, of func(memory) int64) int64 {
	return (of(last.Injector) - of(first.Injector)) / int64(2*(last.Objects-first.Objects))
}

// write replaces the tables of the page, the data and the picture.
func write(f figures) error {
	top, err := framework.RepositoryRoot()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(top, filepath.FromSlash(data)), append(text, '\n'), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(top, filepath.FromSlash(picture)), []byte(draw(f)), 0o644); err != nil {
		return err
	}
	for _, s := range append(sections(f), section{"scale-machine", about(f)}) {
		if err := framework.ReplaceIn(page, s.name, s.text); err != nil {
			return err
		}
	}
	return nil
}

// formerFigures reads the figures of the last run, if there was one. A run of single parts
// keeps those of the others.
func formerFigures() (former figures, _ error) {
	top, err := framework.RepositoryRoot()
	if err != nil {
		return former, err
	}
	text, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(data)))
	if errors.Is(err, fs.ErrNotExist) {
		return former, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &former)
	}
	if err != nil {
		return former, fmt.Errorf("reading the figures of the last run: %w", err)
	}
	return former, nil
}

// checkExtent returns an error unless a run of single parts has the extent of the figures
// that it keeps.
func checkExtent(short bool) error {
	former, err := formerFigures()
	if err == nil && former.Short != short {
		err = fmt.Errorf("choosing parts: %s isn't of a run of the same extent; measure all parts, or as many objects", data)
	}
	return err
}

// about tells of the run.
func about(f figures) string {
	extent := "the whole run"
	if f.Short {
		extent = "a short run (`make scale ARGS=-short`)"
	}
	return fmt.Sprintf("By %s, on %s, on %d cores of a virtual machine.\n", extent, f.Date, runtime.NumCPU())
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond)) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func mb(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

// number writes a number with commas.
func number(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
