// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	_ "embed"
	"fmt"
	"math"
	"strings"
	"text/template"
	"time"
)

//go:embed plot.svg.tmpl
var plotText string

var plotTemplate = template.Must(template.New("plot").Parse(plotText))

// The plot's measures, in pixels.
const (
	plotLeft  = 110.0
	plotRight = 740.0 // where the time axis ends
	rowHigh   = 16.0
	groupTop  = 62.0 // of the first group's rows
	groupGap  = 46.0 // between two groups, where the second one's title is
)

// A plot is what the template draws.
type plot struct {
	High, Left, Right, AxisTop, AxisEnd float64
	Ticks                               []tick
	Groups                              []group
}

type tick struct {
	X    float64
	Text string
}

type group struct {
	Title    string
	Y, DoneX float64 // the title's, and the end of the TaskRun
	DoneTop  float64
	DoneEnd  float64
	Rows     []row
}

// A row is one step: it waits, and then it works.
type row struct {
	Label            string
	Y, WaitX, X      float64
	WaitWidth, Width float64
}

// draw makes the timelines of two TaskRuns, which begin with their creation.
func draw(plain, wrapped taskRun) string {
	longest := max(plain.wall(), wrapped.wall())
	x := func(d time.Duration) float64 {
		return round(plotLeft + (plotRight-plotLeft)*float64(d)/float64(longest))
	}
	p := plot{Left: plotLeft, Right: plotRight, AxisTop: groupTop - 8}
	y := groupTop
	for i, r := range []taskRun{plain, wrapped} {
		name := [...]string{"Tekton alone", "with entrypointer"}[i]
		g := group{Title: fmt.Sprintf("%s: done after %.1f s", name, r.wall().Seconds()), Y: y - 12, DoneX: x(r.wall()), DoneTop: y}
		before := r.created
		for n, s := range r.steps {
			row := row{Label: fmt.Sprint("step ", n+1), Y: y, WaitX: x(before.Sub(r.created)), X: x(s.began.Sub(r.created))}
			row.WaitWidth = round(row.X - row.WaitX)
			row.Width = round(max(2, x(s.ended.Sub(r.created))-row.X))
			g.Rows = append(g.Rows, row)
			before, y = s.ended, y+rowHigh
		}
		g.DoneEnd = y
		p.Groups = append(p.Groups, g)
		y += groupGap
	}
	p.AxisEnd = y - groupGap + 6
	p.High = p.AxisEnd + 34
	for s := time.Duration(0); s <= longest; s += time.Second {
		p.Ticks = append(p.Ticks, tick{x(s), fmt.Sprint(int(s.Seconds()))})
	}
	var b strings.Builder
	if err := plotTemplate.Execute(&b, p); err != nil {
		panic(err) // the template and its data are both ours
	}
	return b.String()
}

// round leaves a tenth of a pixel.
func round(x float64) float64 { return math.Round(x*10) / 10 }
