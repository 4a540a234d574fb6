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

	"github.com/entrypointer/entrypointer/test/markdown"
)

var update = flag.Bool("update", false, "write the comparison into docs/supervisor.md")

const comparisonPage = "../../docs/supervisor.md"

// A row is one question. It is asked about the bare process and about the process under
// each supervisor.
type row struct {
	name string
	// observe runs a command under s and describes what it has observed, in the same
	// words each time.
	observe func(t *testing.T, s subject) string
	// why explains a difference between entrypointer and bare; empty if there is none.
	why string
	// where is the place of the supervisor or of the bare process.
	place func(*exec.Cmd)
	// needs is the reason why the row needs root; empty if any user can run it.
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

// prepared returns argv after lines of shell, which may change it as "$@".
func (s subject) prepared(lines string, command ...string) []string {
	return append([]string{"sh", "-c", lines + "\n" + `exec "$@"`, "sh"}, s.argv(command...)...)
}

// command returns the process ID of the command, if p is the subject's process.
func (s subject) command(t *testing.T, p *os.Process) int {
	t.Helper()
	if s.bare() {
		return p.Pid
	}
	return childOf(t, p.Pid)
}

// A column is a subject with its name in the table.
type column struct {
	subject
	title string
}

// columns are the subjects that are installed. Debian has all peers in packages of
// their names.
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

// TestComparison generates the table and compares it with the one in
// docs/supervisor.md.
func TestComparison(t *testing.T) {
	if *tags != "" {
		t.Skip("the table describes the released supervisor")
	}
	written, err := markdown.Section(comparisonPage, "comparison")
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
		require.NoError(t, markdown.ReplaceSection(comparisonPage, "comparison", table.markdown()))
		return
	}
	require.Equal(t, written, table.markdown(),
		"docs/supervisor.md is not what was found; go test ./cmd/entrypoint -run TestComparison -update writes it")
}

// A table contains the answers by row and column: first those of the document, then
// those observed.
type table struct {
	titles []string
	cells  map[string]map[string]string
}

// newTable returns a table of our rows with the answers in doc. The column of a peer
// that is not installed, or has another version, keeps its answers unless the table is
// being updated.
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

// set records an answer, if there is a column for it.
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

// TestTableIsReadAsItWasWritten protects a run that can't observe every column.
func TestTableIsReadAsItWasWritten(t *testing.T) {
	written, err := markdown.Section(comparisonPage, "comparison")
	require.NoError(t, err)
	doc := readTable(written)
	require.Equal(t, written, newTable(nil, doc).markdown())
}

// sharedFile creates a file that any user may execute.
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

// outcomes collects the outcomes of many numbers.
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
