// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A Block is a console block of a Markdown page: commands, each after "$ ", and
// what they print.
//
// Comments before the block tell a test what to make of it. With
// "<!-- not run: REASON -->", a test leaves it out. The lines of
//
//	<!-- run first:
//	POD=$(kubectl get pods -o name)
//	-->
//
// run before the block, in the same shell. A variable in capitals that they set
// replaces the same word in the commands of the page: POD.
type Block struct {
	Line     int    // of the page, where the block begins
	NotRun   string // why no test runs it; "" if one does
	First    string // what runs before it
	Commands []Command
}

// A Command is a line of a block, with the lines that continue it: after a
// backslash or a pipe, and up to the end of a here-document.
type Command struct {
	Line  int
	Text  string
	Shown string // what it prints, by the page; "" if the page leaves that out
}

// Pages returns the paths of the pages for readers of the repository, which top is
// the directory of.
func Pages(top string) (files []string, _ error) {
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/tasks/*.md", "examples/*.md"} {
		matches, err := filepath.Glob(filepath.Join(top, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		for _, match := range matches {
			file, err := filepath.Rel(top, match)
			if err != nil {
				return nil, err
			}
			files = append(files, filepath.ToSlash(file))
		}
	}
	return files, nil
}

// Blocks returns the console blocks of a page.
func Blocks(file string) ([]Block, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := reader{file: file, lines: strings.Split(string(content), "\n")}
	for r.at < len(r.lines) {
		if err := r.next(); err != nil {
			return nil, err
		}
	}
	return r.blocks, r.forBlock()
}

// BlocksFor returns the console blocks of a page that the named test runs by itself: the reason why
// no other test runs them has its name.
func BlocksFor(file, test string) (blocks []Block, err error) {
	all, err := Blocks(file)
	if err != nil {
		return nil, err
	}
	for _, block := range all {
		if strings.Contains(block.NotRun, test) {
			block.NotRun = ""
			blocks = append(blocks, block)
		}
	}
	if len(blocks) == 0 {
		return nil, fmt.Errorf("looking for the commands that %s runs: %s has none", test, file)
	}
	return blocks, nil
}

const (
	consoleFence = "```console"
	fence        = "```"
	notRunMark   = "<!-- not run:"
	runFirstMark = "<!-- run first:"
	commentEnd   = "-->"
	prompt       = "$ "
)

type reader struct {
	file   string
	lines  []string
	at     int
	mark   Block // what comments have said of the next block
	blocks []Block
}

// next reads a comment, a block, or a line.
func (r *reader) next() error {
	line := r.lines[r.at]
	switch {
	case strings.HasPrefix(line, notRunMark):
		r.mark.NotRun = r.comment(notRunMark)
		if r.mark.NotRun == "" {
			return r.wrong("a comment %q without a reason", notRunMark)
		}
	case strings.HasPrefix(line, runFirstMark):
		r.mark.First = r.comment(runFirstMark)
	case line == consoleFence:
		return r.block()
	case strings.TrimSpace(line) == consoleFence:
		return r.wrong("a %s block that is indented, which no test would see: begin it in the first column", consoleFence)
	case line != "" && !strings.HasPrefix(line, "<!--"):
		if err := r.forBlock(); err != nil {
			return err
		}
		r.at++
	default:
		r.at++
	}
	return nil
}

// comment returns what a comment says after its mark.
func (r *reader) comment(mark string) string {
	var said []string
	for ; r.at < len(r.lines); r.at++ {
		line, ended := strings.CutSuffix(r.lines[r.at], commentEnd)
		said = append(said, line)
		if ended {
			r.at++
			break
		}
	}
	return strings.TrimSpace(strings.TrimPrefix(strings.Join(said, "\n"), mark))
}

// forBlock refuses comments that no block follows.
func (r *reader) forBlock() error {
	if r.mark.NotRun != "" || r.mark.First != "" {
		return r.wrong("a comment about the next %s block, which isn't there", consoleFence)
	}
	return nil
}

func (r *reader) block() error {
	block := r.mark
	block.Line = r.at + 1
	r.mark = Block{}
	for r.at++; r.at < len(r.lines) && r.lines[r.at] != fence; {
		text, isCommand := strings.CutPrefix(r.lines[r.at], prompt)
		switch {
		case isCommand:
			block.Commands = append(block.Commands, r.command(text))
		case len(block.Commands) == 0:
			return r.wrong("output before the first command, which begins with %q", prompt)
		default:
			block.Commands[len(block.Commands)-1].Shown += r.lines[r.at] + "\n"
			r.at++
		}
	}
	if len(block.Commands) == 0 {
		return r.wrong("a %s block without a command; write one after %q", consoleFence, prompt)
	}
	r.at++
	r.blocks = append(r.blocks, block)
	return nil
}

var hereDocument = regexp.MustCompile(`<<-?\s*['"]?(\w+)`)

// command reads a command to its end.
func (r *reader) command(text string) Command {
	command := Command{Line: r.at + 1}
	lines := []string{text}
	for r.at++; r.at < len(r.lines) && r.lines[r.at] != fence && continues(lines); r.at++ {
		lines = append(lines, r.lines[r.at])
	}
	command.Text = strings.Join(lines, "\n")
	return command
}

func continues(lines []string) bool {
	if document := hereDocument.FindStringSubmatch(lines[0]); document != nil {
		return !slices.Contains(lines[1:], document[1])
	}
	last := lines[len(lines)-1]
	return strings.HasSuffix(last, `\`) || strings.HasSuffix(last, "|")
}

func (r *reader) wrong(format string, args ...any) error {
	return fmt.Errorf("reading the console blocks of %s: line %d: %s", r.file, r.at+1, fmt.Sprintf(format, args...))
}
