// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/printable"
)

// Print writes a timeline for people, with a bar for each container. No line is longer than
// the width, or than NarrowestText.
func (t *Timeline) Print(w io.Writer, width int) error {
	width = max(width, NarrowestText)
	var b strings.Builder
	fmt.Fprintf(&b, "%s in namespace %s", t.Target, t.Namespace)
	groups, left := t.groups()
	switch {
	case len(groups) == 0:
		b.WriteString(" has no pods; kubectl entrypointer why says what would happen to one.")
	case t.isRun:
		b.WriteString(": " + groups[0].axis())
	}
	b.WriteString("\n")
	if left > 0 {
		fmt.Fprintf(&b, "\n%d older pods aren't shown; -o json has them.\n", left)
	}
	for _, g := range groups {
		l := g.layout(width)
		for _, p := range g.pods {
			g.print(&b, p, l, t.isRun)
		}
	}
	if kinds := used(groups); len(kinds) > 0 {
		b.WriteString("\n" + legend(kinds, width))
	}
	b.WriteString(t.conclusions())
	_, err := io.WriteString(w, folded(printable.Text(b.String()), width))
	return err
}

// axis says what the axis spans.
func (g *group) axis() string {
	since := " from " + g.from.Format(time.RFC3339) + " on"
	if g.goesOn {
		return length(g.now.Sub(g.from), false) + since + " so far; drawn to scale: the first " + length(g.to.Sub(g.from), false)
	}
	return length(g.to.Sub(g.from), false) + since
}

func (g *group) print(b *strings.Builder, p podRows, l layout, shared bool) {
	fmt.Fprintf(b, "\npod/%s", printable.Line(p.Name))
	if p.Gone {
		b.WriteString(", which is gone")
	}
	if !shared {
		b.WriteString(": " + g.axis())
	}
	b.WriteString("\n")
	for _, r := range p.rows {
		end := "|"
		if n := len(r.spans); g.goesOn && n > 0 && r.spans[n-1].open() {
			end = ">"
		}
		fmt.Fprintf(b, "  %-*s |%s%s", l.labels, cut(r.label, l.labels), g.characters(r.spans, l.cells), end)
		if l.beside {
			b.WriteString(" " + r.says + "\n")
		} else {
			b.WriteString("\n" + fold(r.says, l.width, l.indent(), l.indent()) + "\n")
		}
	}
	if len(p.rows) > 0 {
		b.WriteString(strings.Repeat(" ", l.indent()) + g.scale(l.cells) + "\n")
	}
	if len(p.Sources) > 0 {
		fmt.Fprintf(b, "  times by: %s\n", p.sourcesOf())
	}
}

// characters draws spans. Each has a cell at least, and short ones are drawn over long ones.
func (g *group) characters(spans []Span, cells int) string {
	bar := bytes.Repeat([]byte{' '}, cells)
	spans = slices.Clone(spans)
	slices.SortStableFunc(spans, func(a, b Span) int { return cmp.Compare(b.length(g.to), a.length(g.to)) })
	for _, s := range spans {
		first := min(cells-1, int(g.at(s.From)*float64(cells)))
		last := max(first+1, int(g.at(s.To)*float64(cells)))
		for at := first; at < last; at++ {
			bar[at] = lookOf(s.Kind).glyph
		}
	}
	return string(bar)
}

func lookOf(kind Kind) look {
	return looks[slices.IndexFunc(looks, func(l look) bool { return l.kind == kind })]
}

// legend explains the characters that are used, in lines of a width.
func legend(kinds map[Kind]bool, width int) string {
	var text, line string
	add := func(part string) {
		if line != "" && len(line)+len(between)+len(part) > width {
			text, line = text+line+"\n", ""
		}
		if line != "" {
			line += between
		}
		line += part
	}
	for _, l := range looks {
		if kinds[l.kind] {
			add(string(l.glyph) + " " + l.word)
		}
	}
	add("~ to the second")
	return text + line + "\n"
}

// between is what separates the parts of the legend.
const between = "   "

// conclusions are the hand-offs, the critical path and the notes.
func (t *Timeline) conclusions() string {
	var b strings.Builder
	t.printHandOffs(&b)
	t.printPath(&b)
	for _, note := range t.Notes {
		fmt.Fprintf(&b, "\nnote: %s.\n", printable.Line(note))
	}
	return b.String()
}

func (t *Timeline) printHandOffs(b *strings.Builder) {
	if len(t.HandOffs) == 0 {
		return
	}
	b.WriteString("\nhand-offs, from the end of what was waited for to the start of the command:\n")
	for _, h := range t.HandOffs {
		where := ""
		if len(t.Pods) > 1 {
			where = "pod/" + printable.Line(h.Pod) + ": "
		}
		fmt.Fprintf(b, "  %s%s -> %s  %s\n", where, printable.Line(h.From), printable.Line(h.To), h.Took())
	}
}

func (t *Timeline) printPath(b *strings.Builder) {
	if len(t.CriticalPath) == 0 {
		return
	}
	b.WriteString("\ncritical path, the TaskRuns that determined how long it took:\n")
	for _, s := range t.CriticalPath {
		fmt.Fprintf(b, "  %s (taskrun/%s)  waited %s, took %s\n", printable.Line(s.Task), printable.Line(s.TaskRun), s.Waited(), s.Took())
	}
}
