// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Bench measures the page of the kubectl plugin with a long log, beside Tekton Dashboard in the
// same run: in headless Chromium, on a stand-in for an API server that has one TaskRun whose
// step has printed the log. The plugin is compiled, and the Dashboard has to be there: a program
// "dashboard" and the folder of its files. It writes a table of docs/benchmarks.md:
//
//	go run -C test/page ./bench -update -dashboard PROGRAM -dashboard-files FOLDER
//
// It needs root for the Dashboard, whose paths are fixed: it runs in a mount namespace of its own.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/test/markdown"
)

// A plan is what is measured.
type plan struct {
	runs  int
	sizes []int // lines of 100 bytes
	// searched is the number of lines of the log that is searched.
	searched int
	// patience bounds the time until the last line is seen.
	patience time.Duration

	dashboard, files string
}

func main() {
	log.SetFlags(log.Ltime)
	log.SetPrefix("bench: ")
	p := plan{runs: 3, sizes: []int{10_000, 100_000, 1_000_000}, searched: 10_000_000, patience: time.Minute}
	update := flag.Bool("update", false, "write the tables into docs/benchmarks.md")
	short := flag.Bool("short", false, "measure short logs, to try the bench")
	only := flag.String("only", "", "measure one part: logs or search")
	flag.IntVar(&p.runs, "runs", p.runs, "of each kind")
	flag.StringVar(&p.dashboard, "dashboard", "", "the `program` of Tekton Dashboard, with which the page is compared")
	flag.StringVar(&p.files, "dashboard-files", "", "the `folder` of the files that it serves")
	flag.Parse()
	if *short {
		p.runs, p.sizes, p.searched, p.patience = 2, []int{1000, 30_000}, 50_000, 15*time.Second
	}
	if *update && *only != "search" && p.dashboard == "" {
		log.Fatal("-update needs a -dashboard: the table compares with it")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, p, *only, *update)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, p plan, only string, update bool) error {
	directory, err := os.MkdirTemp("", "bench-page-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	plugin := filepath.Join(directory, "kubectl-entrypointer")
	build := exec.CommandContext(ctx, "go", "build", "-C", "../..", "-o", plugin, "./cmd/kubectl-entrypointer")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("running %q: %w: %.2000s", build.Args, err, out)
	}
	systems := []system{page(plugin)}
	if p.dashboard != "" {
		systems = append(systems, dashboard(p.dashboard, p.files, true), dashboard(p.dashboard, p.files, false))
	}
	if only != "search" {
		compared, err := compare(ctx, filepath.Join(directory, "logs"), p, systems)
		if err != nil {
			return err
		}
		if err := write("page", render(p, systems, compared), update); err != nil {
			return err
		}
	}
	if only == "logs" {
		return nil
	}
	searched, err := search(ctx, filepath.Join(directory, "searched"), p, systems[0])
	if err != nil {
		return err
	}
	return write("page-search", renderSearches(p, searched), update)
}

// write prints a table, and updates its section of the docs.
func write(section, table string, update bool) error {
	fmt.Printf("\n%s", table)
	if !update {
		return nil
	}
	return markdown.ReplaceSection("../../docs/benchmarks.md", section, table)
}

// Measured is what was measured of a log in a system, in the order of the runs.
type measured []figures

// key names a log in a system.
type key struct {
	lines  int
	system string
}

// compare measures each log in each system in turns. A system that doesn't show the last line of a
// log in time isn't asked for it again.
func compare(ctx context.Context, directory string, p plan, systems []system) (map[key]measured, error) {
	all := map[key]measured{}
	for _, lines := range p.sizes {
		c, err := newCluster(ctx, filepath.Join(directory, fmt.Sprint(lines)), lines)
		if err != nil {
			return nil, err
		}
		for range p.runs {
			for _, s := range systems {
				k := key{lines, s.name}
				if had := all[k]; len(had) > 0 && had[len(had)-1].last == 0 {
					continue
				}
				f, err := measure(ctx, c, s, p.patience)
				if err != nil {
					c.close()
					return nil, fmt.Errorf("measuring %d lines in %s: %w", lines, s.name, err)
				}
				log.Printf("%d lines, %s: %+v", lines, s.name, f)
				all[k] = append(all[k], f)
			}
		}
		c.close()
	}
	return all, nil
}

// A query is a text that is searched for, or an expression. Capital letters count.
type query struct {
	text         string
	isExpression bool
}

// A searched is the time of one search, in the page and by grep -c of a file with the same text.
type searched struct {
	query

	page, grep []time.Duration
	matches    string
}

// search measures searches of the whole log.
func search(ctx context.Context, directory string, p plan, s system) ([]searched, error) {
	c, err := newCluster(ctx, directory, p.searched)
	if err != nil {
		return nil, err
	}
	defer c.close()
	text := filepath.Join(directory, "text")
	if err := c.writeText(text); err != nil {
		return nil, err
	}
	return searchAll(ctx, c, s, text, queries(p.searched), p)
}

// queries have one match at the end of the log, and none.
func queries(lines int) []query {
	last, _, _ := strings.Cut(line(lines-1), " GET")
	return []query{{last, false}, {"refused|timed out", true}, {"code=5[0-9]{2} .* in [0-9]+ ms", true}}
}
