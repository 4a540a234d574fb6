// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// NarrowestText is the least width of the text, in characters.
const NarrowestText = 40

const (
	// hanging is the indent of what follows of a line that is too long.
	hanging = 4
	// roomForTick is what a number of the scale takes at least, with the space after it.
	roomForTick = 10
)

// A layout says where the rows of pods that share an axis have their parts.
type layout struct {
	width  int
	labels int // the width of the names
	cells  int // the width of the bars
	beside bool
}

// layout divides a width. The words are beside the bars if they leave them half of it, and
// below otherwise.
func (g *group) layout(width int) layout {
	l := layout{width: width}
	words := 0
	for _, p := range g.pods {
		for _, r := range p.rows {
			l.labels = max(l.labels, utf8.RuneCountInString(r.label))
			words = max(words, utf8.RuneCountInString(r.says))
		}
	}
	l.labels = min(l.labels, width/3)
	l.cells = width - l.indent() - len("|")
	if left := l.cells - len(" ") - words; left >= width/2 {
		l.cells, l.beside = left, true
	}
	return l
}

// indent returns where the bars begin.
func (l layout) indent() int { return len("  ") + l.labels + len(" |") }

// tick is the scale's number at a moment after the start of the axis.
func tick(after time.Duration) string { return after.String() }

// scale returns the line below the bars: each number begins below its moment.
func (g *group) scale(cells int) string {
	whole := g.to.Sub(g.from)
	step := tickOf(whole, max(1, cells/roomForTick))
	line := ""
	for count := range cells {
		after := time.Duration(count) * step
		if after >= whole {
			break
		}
		at, text := int(g.at(g.from.Add(after))*float64(cells)), tick(after)
		if at+len(text) > cells || at < len(line) {
			break
		}
		line += strings.Repeat(" ", at-len(line)) + text + " "
	}
	return strings.TrimRight(line, " ")
}

// folded breaks the lines of a text that are longer than a width.
func folded(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line) > width {
			indent := len(line) - len(strings.TrimLeft(line, " "))
			line = fold(line[indent:], width, indent, max(indent, hanging))
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// unit finds a number with its unit, which stay on one line: joined replaces their space. A
// text for a terminal has no control characters.
var unit = regexp.MustCompile(`(\d) (m?s\b)`)

const joined = "\x00"

// fold breaks a line between words, and a word that is longer than a line anywhere. The
// first line and those after it have indents.
func fold(text string, width, indent, next int) string {
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", indent))
	used, begins := indent, true
	for _, word := range strings.Fields(unit.ReplaceAllString(text, "$1"+joined+"$2")) {
		letters := []rune(strings.ReplaceAll(word, joined, " "))
		if !begins && used+1+len(letters) <= width {
			b.WriteByte(' ')
			used++
		} else if !begins {
			b.WriteString("\n" + strings.Repeat(" ", next))
			used = next
		}
		for len(letters) > width-used {
			b.WriteString(string(letters[:width-used]) + "\n" + strings.Repeat(" ", next))
			letters, used = letters[width-used:], next
		}
		b.WriteString(string(letters))
		used, begins = used+len(letters), false
	}
	return b.String()
}
