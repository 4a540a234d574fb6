// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "time"

// A Chart is a timeline as it is drawn, with places from 0 to 1 and texts for people. Texts
// of tenants in it are shortened, and have no control characters.
type Chart struct {
	// Axes have the pods: those of a run share one, and each other pod has its own.
	Axes []Axis
	// Left is how many older pods aren't drawn.
	Left int
	// Legend has the kinds of bars that are drawn.
	Legend []Look
}

// A Look is a kind of bars, and its word.
type Look struct {
	Kind Kind
	Word string
}

// An Axis is a span of time that is drawn to scale.
type Axis struct {
	// Says is what the axis spans, in words.
	Says  string
	Ticks []Tick
	Pods  []PodChart
	// Path has a bar for each TaskRun on the critical path.
	Path []Bar
}

// A Tick is a moment of the axis, as the time since its start.
type Tick struct {
	At   float64
	Text string
}

// A PodChart has the rows of a pod.
type PodChart struct {
	*Pod
	// Witnesses say who tells the times of the pod.
	Witnesses string
	Lanes     []Lane
}

// A Lane is a row: a container, or what the pod did when none of its containers did
// anything.
type Lane struct {
	Label string
	// Says sums up the row in words.
	Says string
	Bars []Bar
	// GoesOn reports whether the last bar ends at the end of the axis and goes on beyond.
	GoesOn bool
	// Failed reports whether the last start of the container has ended with another exit code
	// than 0.
	Failed bool
}

// A Bar is a span of time on an axis.
type Bar struct {
	// From and To are where it begins and ends.
	From, To float64
	Kind     Kind
	// Word says what was done: "waited".
	Word string
	// After is the time since the start of the axis, and Took the length of the span. Both
	// have "~" if they are known to the second only.
	After, Took string
	For         string
	Outcome     string
	ExitCode    *int
	// Start counts the starts of the container that are known, from 1 on. It is 0 for what no
	// container did.
	Start int
	Open  bool
}

// Title says in a few words what a bar is.
func (b *Bar) Title() string {
	title := b.Word + " " + b.Took
	if b.For != "" {
		title += " (" + b.For + ")"
	}
	return title
}

// Chart returns what is to be drawn. Of many pods, it has the newest ones.
func (t *Timeline) Chart() Chart {
	groups, left := t.groups()
	chart := Chart{Left: left}
	kinds := used(groups)
	for _, l := range looks {
		if kinds[l.kind] {
			chart.Legend = append(chart.Legend, Look{l.kind, l.word})
		}
	}
	for at := range groups {
		axis := groups[at].chart(t.asked)
		if t.isRun {
			axis.Path = t.pathOn(&groups[at])
		}
		chart.Axes = append(chart.Axes, axis)
	}
	return chart
}

func (g *group) chart(now time.Time) Axis {
	axis := Axis{Says: g.axis()}
	for _, p := range g.pods {
		drawn := PodChart{Pod: p.Pod, Witnesses: p.sourcesOf()}
		for _, r := range p.rows {
			lane := Lane{Label: r.label, Says: r.says, Failed: r.failed}
			for _, s := range r.spans {
				lane.Bars = append(lane.Bars, g.bar(&s, now))
				lane.GoesOn = g.goesOn && s.open()
			}
			drawn.Lanes = append(drawn.Lanes, lane)
		}
		axis.Pods = append(axis.Pods, drawn)
	}
	whole := g.to.Sub(g.from)
	step := tickOf(whole, mostTicks)
	for count := range mostTicks + 1 {
		after := time.Duration(count) * step
		if after > whole {
			break
		}
		axis.Ticks = append(axis.Ticks, Tick{g.at(g.from.Add(after)), tick(after)})
	}
	return axis
}

func (g *group) bar(s *Span, now time.Time) Bar {
	return Bar{
		From: g.at(s.From), To: g.at(s.To), Kind: s.Kind, Word: lookOf(s.Kind).word,
		After: length(max(0, s.From.Sub(g.from)), s.coarseFrom), Took: length(s.length(now), s.Precision != ""),
		For: short(s.For), Outcome: short(s.Outcome), ExitCode: s.ExitCode, Start: s.start, Open: s.open(),
	}
}

// pathOn returns the critical path on an axis.
func (t *Timeline) pathOn(g *group) (bars []Bar) {
	for _, s := range t.CriticalPath {
		bars = append(bars, Bar{From: g.at(s.From), To: g.at(s.To), Word: short(s.Task), After: length(max(0, s.From.Sub(g.from)), true), Took: s.Took(), For: short(s.TaskRun)})
	}
	return bars
}

// GoesOn reports whether anything in the timeline hadn't ended when it was read.
func (t *Timeline) GoesOn() bool {
	for at := range t.Pods {
		for s := range t.Pods[at].all {
			if s.open() {
				return true
			}
		}
	}
	return false
}
