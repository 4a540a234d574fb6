// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

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
	left    = 80.0
	right   = 740.0 // where the time axis ends
	rowHigh = 22.0
	rowsTop = 52.0
)

// A plot is what the template draws.
type plot struct {
	High, Right, AxisTop, AxisEnd, Deleted float64
	Ticks                                  []tick
	Rows                                   []row
}

type tick struct {
	X    float64
	Text string
}

// A row is one container.
type row struct {
	Label string
	Y     float64
	Bars  []bar
}

// A bar is what a container did for a while.
type bar struct {
	Class    string
	X, Width float64
}

func draw(l timeline) string {
	began := l.begin()
	whole := l.end().Sub(began)
	x := func(at time.Time) float64 {
		return round(left + (right-left)*float64(at.Sub(began))/float64(whole))
	}
	p := plot{Right: right, AxisTop: rowsTop - 8, Deleted: x(l.deleted)}
	y := rowsTop
	for _, c := range l.lives {
		r := row{Label: c.container, Y: y}
		for _, part := range c.parts() {
			r.Bars = append(r.Bars, bar{part.class, x(part.from), round(max(1, x(part.to)-x(part.from)))})
		}
		p.Rows = append(p.Rows, r)
		y += rowHigh
	}
	p.AxisEnd = y + 2
	p.High = p.AxisEnd + 34
	for s := time.Duration(0); s <= whole; s += time.Second {
		p.Ticks = append(p.Ticks, tick{x(began.Add(s)), fmt.Sprint(int(s.Seconds()))})
	}
	var b strings.Builder
	if err := plotTemplate.Execute(&b, p); err != nil {
		panic(err) // the template and its data are both ours
	}
	return b.String()
}

type part struct {
	class    string
	from, to time.Time
}

// parts are what a container did, one after the other.
func (c life) parts() (list []part) {
	marks := []struct {
		class string
		from  time.Time
	}{{"waits", c.waiting}, {"starts", c.started}, {"works", c.ready}, {"stops", c.stopping}}
	for _, m := range marks {
		if m.from.IsZero() {
			continue
		}
		if len(list) > 0 {
			list[len(list)-1].to = m.from
		}
		list = append(list, part{m.class, m.from, c.ended})
	}
	return list
}

// round leaves a tenth of a pixel.
func round(x float64) float64 { return math.Round(x*10) / 10 }
