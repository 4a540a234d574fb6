// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/test/page"
)

var update = flag.Bool("update", false, "write the comparison into docs/supervisor.md")

const comparisonPage = "../../docs/supervisor.md"

// A row is one question, which is put to the bare process and to the process
// under each of the supervisors in the same way.
type row struct {
	name string
	// observe runs a command under s, and says what was to be seen of it, in
	// words that are the same each time.
	observe func(t *testing.T, s subject) string
	// why the entrypointer differs from bare; empty if it doesn't.
	why string
	// where the supervisor, or the bare process, is.
	place func(*exec.Cmd)
	// needs is what only root can do, empty for a row that anybody can run.
	needs string
}

// A subject is one way to run a command.
type subject struct {
	name   string
	prefix []string // of the command line
	place  func(*exec.Cmd)
}

func (s subject) bare() bool { return s.name == "bare" }

func (s subject) argv(command ...string) []string {
	return append(slices.Clone(s.prefix), command...)
}

// prepared is argv after lines of shell, which may change it as "$@".
func (s subject) prepared(lines string, command ...string) []string {
	return append([]string{"sh", "-c", lines + "\n" + `exec "$@"`, "sh"}, s.argv(command...)...)
}

// command is the ID of the command's process, when p is the subject's.
func (s subject) command(t *testing.T, p *os.Process) int {
	t.Helper()
	if s.bare() {
		return p.Pid
	}
	return childOf(t, p.Pid)
}

// A column is a subject with how the table names it.
type column struct {
	subject
	title string
}

// columns are the subjects of the comparison, those that are there: Debian has
// all of the peers, in packages of their names.
func columns(t *testing.T) []column {
	list := []column{
		{subject{name: "bare"}, "bare"},
		{subject{name: "entrypointer", prefix: []string{entrypoint, "--"}}, "entrypointer"},
	}
	for _, peer := range []subject{
		{name: "tini", prefix: []string{"tini", "-s", "--"}},
		{name: "dumb-init", prefix: []string{"dumb-init", "--"}},
		{name: "catatonit", prefix: []string{"catatonit", "--"}},
	} {
		path, err := exec.LookPath(peer.prefix[0])
		if err != nil {
			t.Logf("%s is not installed: its column is not looked at", peer.name)
			continue
		}
		out, err := exec.Command(path, "--version").CombinedOutput()
		require.NoError(t, err)
		peer.prefix[0] = path
		list = append(list, column{peer, peer.name + " " + version.FindString(string(out))})
	}
	return list
}

var version = regexp.MustCompile(`\d+(\.\d+)+`)

// TestComparison makes the table in docs/supervisor.md, and compares it with
// the one that is there.
func TestComparison(t *testing.T) {
	if *tags != "" {
		t.Skip("the table is of the entrypoint as it is released")
	}
	written, err := page.Section(comparisonPage, "comparison")
	require.NoError(t, err)
	doc := readTable(written)
	if *update {
		require.Zero(t, os.Getuid(), "root is needed for a whole table")
	}
	cols := columns(t)
	table := newTable(cols, doc)
	for _, c := range cols {
		if !slices.Contains(table.titles, c.title) {
			t.Logf("%s is not the version that the page is about: its column is not compared", c.title)
		}
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if r.needs != "" {
				needRoot(t, r.needs)
			}
			var bare string
			for _, c := range cols {
				c.place = r.place
				var seen string
				t.Run(c.name, func(t *testing.T) { seen = r.observe(t, c.subject) })
				require.False(t, t.Failed())
				require.NotContains(t, seen, "|", "the table would not stand it")
				switch c.name {
				case "bare":
					bare = seen
				case "entrypointer":
					require.Equal(t, seen != bare, r.why != "", "bare: %s\nentrypointer: %s\nwhy: %s", bare, seen, r.why)
				}
				if c.name != "bare" && seen == bare {
					seen = "same"
				}
				table.set(r.name, c.title, seen)
			}
		})
	}
	if t.Failed() {
		return
	}
	if *update {
		require.NoError(t, page.ReplaceSection(comparisonPage, "comparison", table.markdown()))
		return
	}
	require.Equal(t, written, table.markdown(),
		"docs/supervisor.md is not what was found; go test ./cmd/entrypoint -run TestComparison -update writes it")
}

// A table has what is known by row and column, first what was written and then
// what was found.
type table struct {
	titles []string
	cells  map[string]map[string]string
}

// newTable is a table of the rows that we have, as written in doc. A peer that
// isn't there keeps its column, and so does one of another version, which may
// well do otherwise, unless the table is to be updated.
func newTable(found []column, doc table) table {
	t := table{cells: doc.cells}
	for _, name := range []string{"bare", "entrypointer", "tini", "dumb-init", "catatonit"} {
		is := func(title string) bool { return title == name || strings.HasPrefix(title, name+" ") }
		i := slices.IndexFunc(found, func(c column) bool { return c.name == name })
		j := slices.IndexFunc(doc.titles, is)
		switch {
		case j >= 0 && (i < 0 || !*update):
			t.titles = append(t.titles, doc.titles[j])
		case i >= 0:
			t.titles = append(t.titles, found[i].title)
		}
	}
	return t
}

// set notes what was found, if there is a column for it.
func (t table) set(row, title, seen string) {
	if !slices.Contains(t.titles, title) {
		return
	}
	if t.cells[row] == nil {
		t.cells[row] = make(map[string]string)
	}
	t.cells[row][title] = seen
}

func readTable(markdown string) table {
	t := table{cells: make(map[string]map[string]string)}
	for line := range strings.Lines(markdown) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		switch {
		case !strings.HasPrefix(line, "| "), strings.HasPrefix(line, "| ---"):
		case t.titles == nil:
			t.titles = cells[1:]
		default:
			for i, cell := range cells[1:] {
				t.set(cells[0], t.titles[i], cell)
			}
		}
	}
	return t
}

func (t table) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| what | %s |\n|%s\n", strings.Join(t.titles, " | "), strings.Repeat(" --- |", len(t.titles)+1))
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s |", r.name)
		for _, title := range t.titles {
			fmt.Fprintf(&b, " %s |", t.cells[r.name][title])
		}
		b.WriteString("\n")
	}
	b.WriteString("\nReasons why entrypointer differs from the bare process:\n\n")
	for _, r := range rows {
		if r.why != "" {
			fmt.Fprintf(&b, "- **%s**: %s.\n", r.name, r.why)
		}
	}
	return b.String()
}

// TestTableIsReadAsItWasWritten is what a run relies on that can't look at
// every column.
func TestTableIsReadAsItWasWritten(t *testing.T) {
	written, err := page.Section(comparisonPage, "comparison")
	require.NoError(t, err)
	doc := readTable(written)
	require.Equal(t, written, newTable(nil, doc).markdown())
}

// sharedFile makes a file that any user may execute.
func sharedFile(t *testing.T, dir, name, content string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(file, []byte(content), 0o755))
	return file
}

// numbers writes a sorted list as ranges: 1-3, 7.
func numbers(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		part := fmt.Sprint(list[i])
		if j > i {
			part += fmt.Sprintf("-%d", list[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

// outcomes collects what became of each of many numbers.
type outcomes map[string][]int

func (o outcomes) add(outcome string, n int) { o[outcome] = append(o[outcome], n) }

func (o outcomes) String() string {
	var parts []string
	for outcome, list := range o {
		parts = append(parts, outcome+": "+numbers(list))
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}
