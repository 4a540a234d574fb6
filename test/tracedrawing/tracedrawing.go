// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package tracedrawing draws traces as tracing systems show them, for pages.
package tracedrawing

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"text/template"
	"time"
)

// A Span is a span of a trace that is drawn.
type Span struct {
	ID, Parent string // Parent is "" for a root, or the ID of a span that isn't there
	Name       string
	Start      time.Time
	Took       time.Duration
}

//go:embed trace.svg.tmpl
var text string

var drawing = template.Must(template.New("trace").Parse(text))

// The measures of a drawing, in its own units.
const (
	fullWidth = 760.0
	axisAt    = 200.0 // where the time begins
	axisWidth = 490.0
	topAt     = 32
	rowHeight = 20
	indent    = 16
	leastBar  = 2.0
	mostRows  = 200
)

type rowView struct {
	Name, Took, Class string
	Indent, Y         int
	X, Width, TookX   float64
}

type tickView struct {
	X    float64
	Text string
}

// Draw draws a trace as tracing systems show it: a row for each span, below the one that
// has it, with a bar over time. Of spans with the same parent, the
// first one comes first, and of those that begin at once, the shortest.
func Draw(title string, spans []Span) ([]byte, error) {
	if len(spans) == 0 || len(spans) > mostRows {
		return nil, fmt.Errorf("drawing a trace: it has %d spans, and can have 1 to %d", len(spans), mostRows)
	}
	first, last := spans[0].Start, spans[0].Start
	byID := map[string]bool{}
	for _, s := range spans {
		byID[s.ID] = true
		if s.Start.Before(first) {
			first = s.Start
		}
		if end := s.Start.Add(s.Took); end.After(last) {
			last = end
		}
	}
	length := max(last.Sub(first), time.Millisecond)
	place := func(d time.Duration) float64 { return rounded(axisWidth * float64(d) / float64(length)) }
	children := map[string][]Span{}
	for _, s := range spans {
		parent := s.Parent
		if !byID[parent] {
			parent = ""
		}
		children[parent] = append(children[parent], s)
	}
	var rows []rowView
	var add func(of string, depth int)
	add = func(of string, depth int) {
		slices.SortFunc(children[of], func(a, b Span) int {
			return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Took, b.Took), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
		})
		for _, s := range children[of] {
			row := rowView{Name: escaped(s.Name), Took: shortTime(s.Took), Class: classOf(s, len(children[s.ID]) > 0), Indent: 8 + indent*depth, Y: topAt + rowHeight*len(rows)}
			row.X, row.Width = axisAt+place(s.Start.Sub(first)), max(leastBar, place(s.Took))
			row.TookX = rounded(row.X + row.Width + 5)
			rows = append(rows, row)
			add(s.ID, depth+1)
		}
	}
	add("", 0)
	if len(rows) != len(spans) {
		return nil, errors.New("drawing a trace: spans are below themselves")
	}
	var ticks []tickView
	step := tickOf(length)
	for at := time.Duration(0); at <= length; at += step {
		ticks = append(ticks, tickView{axisAt + place(at), at.String()})
	}
	var out bytes.Buffer
	err := drawing.Execute(&out, map[string]any{
		"Title": escaped(title), "Width": fullWidth, "Height": topAt + rowHeight*len(rows) + 4, "Ticks": ticks, "Rows": rows,
	})
	return out.Bytes(), err
}

// tickOf returns the time between two ticks, of which there are a handful.
func tickOf(length time.Duration) time.Duration {
	for unit := time.Millisecond; ; unit *= 10 {
		for _, step := range []time.Duration{unit, 2 * unit, 5 * unit} {
			if length/step < 8 {
				return step
			}
		}
	}
}

func classOf(s Span, isAbove bool) string {
	switch {
	case s.Name == "wait":
		return "wait"
	case isAbove:
		return "above"
	default:
		return "bar"
	}
}

// shortTime is a duration to three digits.
func shortTime(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(time.Millisecond).String()
	default:
		return "under 1ms"
	}
}

func rounded(x float64) float64 { return float64(int(10*x+0.5)) / 10 }

func escaped(text string) string {
	var out bytes.Buffer
	_ = xml.EscapeText(&out, []byte(text)) // a buffer takes it
	return out.String()
}
