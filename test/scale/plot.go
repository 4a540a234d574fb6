// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/template"
	"time"
)

//go:embed plot.svg.tmpl
var plotText string

var plotTemplate = template.Must(template.New("plot").Parse(plotText))

// The measures of a chart, in pixels; the template has the same.
const (
	chartHigh             = 224.0
	chartLeft, chartRight = 60.0, 560.0
	chartTop, chartBottom = 28.0, 170.0
	labelGap              = 15.0
)

// A chart is the input of a drawing: values by numbers of something.
type chart struct {
	title, axis string
	x           []float64
	lines       []line
}

type line struct {
	name string
	y    []float64
}

// The types of what the template draws.
type (
	drawnChart struct {
		Title, Axis    string
		Top            float64
		XTicks, YTicks []drawnTick
		Lines          []drawnLine
	}
	drawnTick struct {
		At   float64
		Text string
	}
	drawnLine struct {
		Name, Points string
		Colour       int
		LabelY       float64
		Dots         []drawnDot
	}
	drawnDot struct{ X, Y float64 }
)

// charts returns the charts of what was measured.
func charts(f figures) (all []chart) {
	if len(f.Namespaces) > 1 {
		all = append(all, memoryChart("Memory of the injector (MB) by namespaces", "namespaces that opted in, and as many that didn't", f.Namespaces))
	}
	if len(f.Pods) > 1 {
		all = append(all, memoryChart("Memory of the injector (MB) by pods that exist", "pods", f.Pods))
	}
	if len(f.Nodes) > 1 {
		all = append(all, memoryChart("Memory of the injector (MB) by nodes, for delivery: auto", "nodes", f.Nodes))
	}
	if len(f.Claims) > 1 {
		all = append(all, memoryChart("Memory of the injector (MB) by claims, for delivery: claim", "claims", f.Claims))
	}
	var images []grown
	for _, i := range f.Images {
		images = append(images, grown{Objects: i.Images, Injector: i.Injector})
	}
	if len(images) > 1 {
		all = append(all, memoryChart("Memory of the injector (MB) by images that were looked up", "images", images))
	}
	for _, c := range []chart{rateChart(f.Reviews), creationChart(f.Creations)} {
		if len(c.x) > 1 {
			all = append(all, c)
		}
	}
	return all
}

func memoryChart(title, axis string, grown []grown) chart {
	c := chart{title: title, axis: axis, lines: []line{{name: "reachable heap"}, {name: "RSS"}, {name: "highest RSS"}}}
	for _, g := range grown {
		c.x = append(c.x, float64(g.Objects))
		for i, bytes := range []int64{g.Injector.Heap, g.Injector.RSS, g.Injector.Highest} {
			c.lines[i].y = append(c.lines[i].y, float64(bytes)/1e6)
		}
	}
	return c
}

func rateChart(reviews []loaded) chart {
	c := chart{title: "p99 of the injector's part (ms) by admissions a second, on one core", axis: "admissions a second", lines: []line{{name: withCommands}, {name: remembered}}}
	for _, l := range reviews {
		if x := float64(l.Rate); !slices.Contains(c.x, x) {
			c.x = append(c.x, x)
		}
		for i := range c.lines {
			if c.lines[i].name == l.Kind {
				c.lines[i].y = append(c.lines[i].y, float64(l.P99)/float64(time.Millisecond))
			}
		}
	}
	return c
}

func creationChart(rows []created) chart {
	c := chart{title: "Creation of a pod (ms, median), and of one that is wrapped, by pods a second", axis: "pods a second", lines: []line{{name: "not opted in"}, {name: "opted in"}}}
	for _, r := range rows {
		c.x = append(c.x, float64(r.Rate))
		for i, took := range []time.Duration{r.PlainP50, r.OursP50} {
			c.lines[i].y = append(c.lines[i].y, float64(took)/float64(time.Millisecond))
		}
	}
	return c
}

// draw returns the picture.
func draw(f figures) string {
	var drawn struct {
		High   float64
		Charts []drawnChart
	}
	for _, c := range charts(f) {
		d := c.draw()
		d.Top = 10 + drawn.High
		drawn.Charts = append(drawn.Charts, d)
		drawn.High += chartHigh
	}
	var b strings.Builder
	if err := plotTemplate.Execute(&b, drawn); err != nil {
		panic(err) // the template and its data are both ours
	}
	return b.String()
}

func (c chart) draw() drawnChart {
	d := drawnChart{Title: c.title, Axis: c.axis}
	highest := 0.0
	for _, l := range c.lines {
		for _, v := range l.y { // none, if the part failed before
			highest = max(highest, v)
		}
	}
	step := tickStep(highest)
	top := step * math.Ceil(highest/step)
	x := func(v float64) float64 { return round(chartLeft + (chartRight-chartLeft)*v/slices.Max(c.x)) }
	y := func(v float64) float64 { return round(chartBottom - (chartBottom-chartTop)*v/top) }
	for n := range int(math.Round(top/step)) + 1 {
		v := float64(n) * step
		d.YTicks = append(d.YTicks, drawnTick{y(v), fmt.Sprintf("%.4g", v)})
	}
	for _, v := range c.x {
		d.XTicks = append(d.XTicks, drawnTick{x(v), number(int(v))})
	}
	for i, l := range c.lines {
		drawn := drawnLine{Name: l.name, Colour: i}
		var points []string
		for n, v := range l.y {
			dot := drawnDot{x(c.x[n]), y(v)}
			drawn.Dots = append(drawn.Dots, dot)
			points = append(points, fmt.Sprintf("%v,%v", dot.X, dot.Y))
			drawn.LabelY = dot.Y
		}
		drawn.Points = strings.Join(points, " ")
		d.Lines = append(d.Lines, drawn)
	}
	spread(d.Lines)
	return d
}

// spread moves labels so that they don't overlap.
func spread(lines []drawnLine) {
	order := slices.Clone(lines)
	slices.SortFunc(order, func(a, b drawnLine) int { return cmp.Compare(b.LabelY, a.LabelY) })
	last := math.Inf(1)
	for _, l := range order {
		last = min(l.LabelY, last-labelGap)
		lines[l.Colour].LabelY = last
	}
}

// tickStep returns a step of 1, 2 or 5 times a power of ten, with three to six ticks.
func tickStep(highest float64) float64 {
	if highest <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(highest)))
	for _, factor := range []float64{0.2, 0.5, 1, 2} {
		if highest/(factor*power) <= 6 {
			return factor * power
		}
	}
	return 2 * power
}

// round leaves a tenth of a pixel.
func round(x float64) float64 { return math.Round(x*10) / 10 }
