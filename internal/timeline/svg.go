// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	_ "embed"
	"encoding/xml"
	"io"
	"math"
	"strings"
	"text/template"
	"time"

	"github.com/entrypointer/entrypointer/internal/printable"
)

//go:embed plot.svg.tmpl
var plotText string

var plotTemplate = template.Must(template.New("plot").Funcs(template.FuncMap{"xml": escaped}).Parse(plotText))

// escaped makes a text one of XML, which has no control characters.
func escaped(text string) (string, error) {
	var b strings.Builder
	err := xml.EscapeText(&b, []byte(printable.Line(text)))
	return b.String(), err
}

// The measures of the drawing, in pixels. It looks like docs/order.svg.
const (
	plotMargin = 20.0
	plotLeft   = 240.0
	plotRight  = 760.0 // where the axis ends
	plotNarrow = 1000.0
	rowHigh    = 22.0
	legendGap  = 140.0
	letterWide = 6.5
)

// A plot is what the template draws.
type plot struct {
	Title                    string
	Width, High, Left, Words float64
	Legend                   []mark
	Groups                   []plotGroup
	Conclusions              []mark
}

// A mark is a text at a place.
type mark struct {
	X, Y        float64
	Class, Text string
}

type plotGroup struct {
	Top, Bottom float64
	Ticks       []mark
	Headings    []mark
	Rows        []plotRow
}

type plotRow struct {
	Y           float64
	Label, Says string
	Bars        []plotBar
}

// A plotBar is a span; its title is what a pointer or a screen reader finds.
type plotBar struct {
	Class, Title string
	X, Width     float64
}

// WriteSVG draws a timeline.
func (t *Timeline) WriteSVG(w io.Writer) error {
	chart := t.Chart()
	p := plot{Title: "Timeline of " + t.Target + " in namespace " + t.Namespace, Width: plotNarrow, Left: plotLeft, Words: plotRight + 10}
	x, y := plotMargin, 46.0
	for _, l := range chart.Legend {
		if x+legendGap > plotRight {
			x, y = plotMargin, y+20
		}
		p.Legend = append(p.Legend, mark{x, y, string(l.Kind), l.Word})
		x += legendGap
	}
	y += 32
	for at := range chart.Axes {
		var drawn plotGroup
		drawn, y = chart.Axes[at].plot(y)
		p.Groups = append(p.Groups, drawn)
		for _, r := range drawn.Rows {
			p.Width = max(p.Width, p.Words+letterWide*float64(len(r.Says)))
		}
	}
	for line := range strings.Lines(t.conclusions()) {
		p.Conclusions = append(p.Conclusions, mark{X: plotMargin, Y: y, Text: strings.TrimSpace(line)})
		p.Width = max(p.Width, plotMargin+letterWide*float64(len(line)))
		y += 16
	}
	p.High = y
	return plotTemplate.Execute(w, p)
}

// plot draws an axis from a height on, and returns where it ends.
func (a *Axis) plot(y float64) (drawn plotGroup, bottom float64) {
	place := func(at float64) float64 { return rounded(plotLeft + (plotRight-plotLeft)*at) }
	drawn.Top = y
	for _, p := range a.Pods {
		drawn.Headings = append(drawn.Headings, mark{plotMargin, y, "pod", "pod/" + p.Name + ", times by: " + p.Witnesses})
		y += 6
		for _, l := range p.Lanes {
			row := plotRow{Y: y, Label: l.Label, Says: l.Says}
			for _, b := range l.Bars {
				from := place(b.From)
				row.Bars = append(row.Bars, plotBar{string(b.Kind), l.Label + " " + b.Title(), from, rounded(max(1, place(b.To)-from))})
			}
			drawn.Rows = append(drawn.Rows, row)
			y += rowHigh
		}
		y += 14
	}
	drawn.Bottom = y - 12
	for _, t := range a.Ticks {
		drawn.Ticks = append(drawn.Ticks, mark{X: place(t.At), Text: t.Text})
	}
	return drawn, y + 30
}

// mostTicks is how many distances of ticks an axis has at most.
const mostTicks = 10

// tickOf returns a distance of ticks that an axis has at most so often: 1, 2 or 5 of a power
// of ten, in milliseconds.
func tickOf(whole time.Duration, most int) time.Duration {
	for power := time.Millisecond; power < longestTick; power *= 10 {
		for _, step := range []time.Duration{power, 2 * power, 5 * power} {
			if whole <= time.Duration(most)*step {
				return step
			}
		}
	}
	return longestTick
}

// longestTick is for times that are made up, as those of a pod that is gone can be.
const longestTick = 1e8 * time.Second

// rounded leaves a tenth of a pixel.
func rounded(x float64) float64 { return math.Round(x*10) / 10 }
