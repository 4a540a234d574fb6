// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

const (
	tick     = "✓"
	cross    = "✗"
	ellipsis = "…"
)

// terminal prints for people: aligned, cut to the width of their screen, and in
// colour if it is a screen and they don't mind (https://no-color.org).
type terminal struct {
	to     io.Writer
	colour bool
	width  int
}

func newTerminal(file *os.File) *terminal {
	t := &terminal{to: file, width: 110}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 40 {
		t.width = width
		t.colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return t
}

const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
	cyan  = "36"
)

func (t *terminal) paint(style, text string) string {
	if !t.colour || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// during tells what is done once it is, and how long it took.
func (t *terminal) during(what string, do func() error) error {
	start := time.Now()
	err := do()
	t.done(what, time.Since(start), err)
	return err
}

func (t *terminal) done(what string, took time.Duration, err error) {
	mark := t.paint(green, tick)
	if err != nil {
		mark = t.paint(red, cross)
	}
	fmt.Fprintf(t.to, "%s %-*s %s\n", mark, 60, what, t.paint(dim, fmt.Sprintf("%5.1fs", took.Seconds())))
}

func (t *terminal) waiting(what []string) {
	if len(what) > 0 {
		fmt.Fprintln(t.to, t.paint(dim, ellipsis+" waiting for "+strings.Join(what, ", ")))
	}
}

func (t *terminal) heading(title, note string) {
	fmt.Fprintf(t.to, "\n%s  %s\n", t.paint(bold, title), t.paint(dim, note))
}

func (t *terminal) subheading(title string) {
	fmt.Fprintf(t.to, "\n  %s\n", t.paint(cyan, title))
}

func (t *terminal) field(name, value string) {
	const indent = 4 + 8
	fmt.Fprintf(t.to, "    %s%s\n", t.paint(dim, fmt.Sprintf("%-8s", name)), shorten(value, t.width-indent))
}

// fields prints one below the other what belongs to one name.
func (t *terminal) fields(name string, values []string) {
	for _, value := range values {
		t.field(name, value)
		name = ""
	}
}

func (t *terminal) command(line string) { fmt.Fprintf(t.to, "  %s\n", line) }

// answer prints a command with its output, and claims of it, and returns how many don't
// hold.
func (t *terminal) answer(command, text string, claims []claim) (failed int) {
	t.subheading("$ " + command)
	for line := range strings.Lines(text) {
		t.command("  " + strings.TrimSuffix(line, "\n"))
	}
	return t.claims("    ", claims)
}

// claims prints claims, those that hold in one line, and returns how many don't.
func (t *terminal) claims(indent string, claims []claim) (failed int) {
	var hold []string
	for _, c := range claims {
		if c.holds {
			hold = append(hold, t.paint(green, tick)+" "+c.text)
		}
	}
	fmt.Fprintf(t.to, "%s%s\n", indent, strings.Join(hold, "  "))
	for _, c := range claims {
		if !c.holds {
			fmt.Fprintf(t.to, "%s%s %s, but it is not so: %s\n", indent, t.paint(red, cross), c.text, c.but)
			failed++
		}
	}
	return failed
}

// shorten cuts the middle out of what is too long for a line: of a command, the
// beginning and the end tell most.
func shorten(text string, width int) string {
	text = strings.TrimRight(strings.NewReplacer("\n", " ", "\t", " ").Replace(text), " ")
	length := utf8.RuneCountInString(text)
	if length <= width {
		return text
	}
	runes := []rune(text)
	head := width * 2 / 3
	tail := width - head - 1
	return string(runes[:head]) + ellipsis + string(runes[length-tail:])
}
