// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/printable"
)

const (
	// mostShown is how many pods are drawn: the newest ones.
	mostShown = 20
	// longestLabel bounds the name of a row, in characters.
	longestLabel = 32
	// longestReason bounds what is said of a reason or a need, in characters.
	longestReason = 80
)

// A look is how a kind of spans is drawn, and what is said of a container.
type look struct {
	kind  Kind
	glyph byte
	word  string
}

// looks are those of all kinds, in the order in which they are listed.
var looks = []look{
	{Requesting, ';', "had no pod"},
	{Scheduling, ',', "had no node"},
	{Starting, '/', "was started"},
	{Pulling, '%', "pulled"},
	{Creating, ':', "was created"},
	{Waiting, '.', "waited"},
	{Hook, '+', "ran hooks"},
	{Paused, '=', "paused"},
	{Running, '#', "ran"},
	{Alive, '?', "waited or ran"},
	{Stopping, '-', "stopped"},
	{Ending, '_', "finished"},
	{Restarting, '!', "was to be restarted"},
	{Completing, '\\', "was completed"},
	{Unattributed, '*', "not attributed"},
}

// A group has the pods that share an axis.
type group struct {
	pods     []podRows
	from, to time.Time
	now      time.Time
	goesOn   bool // longer than the axis, until now
}

type podRows struct {
	*Pod
	rows []row
}

// A row is a container, or what isn't of a container of the pod.
type row struct {
	label string
	spans []Span
	says  string
	// failed reports whether the last start has ended with another exit code than 0.
	failed bool
}

// groups returns what is drawn: the pods of a run on one axis, and others on their own. It
// returns the number of older pods that aren't drawn as well.
func (t *Timeline) groups() (groups []group, left int) {
	left = max(0, len(t.Pods)-mostShown)
	for at := range t.Pods[left:] {
		p := &t.Pods[left+at]
		if !t.isRun || len(groups) == 0 {
			groups = append(groups, group{})
		}
		g := &groups[len(groups)-1]
		g.pods = append(g.pods, podRows{p, p.rows(t.asked)})
	}
	for at := range groups {
		groups[at].setAxis(t.asked)
	}
	return groups, left
}

// setAxis sets the ends of the axis. What goes on takes at most half of it, so that what
// came before can be seen.
func (g *group) setAxis(now time.Time) {
	g.now = now
	var last time.Time
	isOpen := false
	for _, p := range g.pods {
		g.from = earliest(g.from, p.from())
		for s := range p.all {
			for _, at := range []time.Time{s.From, s.To} {
				if at.After(last) {
					last = at
				}
			}
			isOpen = isOpen || s.open()
		}
	}
	g.to = last
	if isOpen && now.After(last) {
		g.to = now
		if longest := last.Add(last.Sub(g.from)); last.After(g.from) && longest.Before(now) {
			g.to, g.goesOn = longest, true
		}
	}
	if !g.to.After(g.from) {
		g.to = g.from.Add(second)
	}
}

// at returns where a moment is on the axis, from 0 to 1.
func (g *group) at(moment time.Time) float64 {
	if moment.IsZero() || moment.After(g.to) {
		return 1
	}
	return max(0, float64(moment.Sub(g.from))/float64(g.to.Sub(g.from)))
}

func (p *Pod) rows(now time.Time) (rows []row) {
	if len(p.Spans) > 0 {
		rows = append(rows, row{label: "(pod)", spans: p.Spans, says: sums(p.Spans, now)})
	}
	for _, c := range p.Containers {
		spans := c.all()
		hasFailed := len(c.Lives) > 0 && c.Lives[len(c.Lives)-1].failed()
		rows = append(rows, row{cut(printable.Line(c.Name), longestLabel), spans, c.says(spans, now), hasFailed})
	}
	return rows
}

// says sums up a container.
func (c *Container) says(spans []Span, now time.Time) string {
	text := cmp.Or(sums(spans, now), "hasn't begun")
	if n := len(c.Lives); n > 0 {
		last := c.Lives[n-1]
		switch {
		case last.failed():
			text += fmt.Sprintf(", exit code %d", *last.ExitCode)
			if last.Reason != "" {
				text += " (" + short(last.Reason) + ")"
			}
		case last.Reason == "Skipped":
			text += ", skipped"
		}
		if n > 1 {
			text += fmt.Sprintf(", %d starts", n)
		}
	}
	return text
}

// failed reports whether a life has ended with another exit code than 0.
func (l *Life) failed() bool { return l.ExitCode != nil && *l.ExitCode != 0 }

// sums says how long each kind of spans took together, and what was waited for.
func sums(spans []Span, now time.Time) string {
	var parts []string
	for _, l := range looks {
		var total time.Duration
		var reasons []string
		found, isCoarse := false, false
		for _, s := range spans {
			if s.Kind != l.kind {
				continue
			}
			found, isCoarse, total = true, isCoarse || s.Precision != "", total+s.length(now)
			if why := short(s.For); why != "" && s.Kind != Pulling && !slices.Contains(reasons, why) {
				reasons = append(reasons, why)
			}
		}
		if isNothing := l.kind == Ending && total < time.Millisecond; !found || isNothing {
			continue
		}
		text := l.word + " " + length(total, isCoarse)
		if len(reasons) > 0 {
			text += " (" + short(strings.Join(reasons, ", ")) + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// cut returns the beginning of a text that is longer than so many bytes.
func cut(text string, most int) string {
	if len(text) > most {
		return text[:most-3] + "..."
	}
	return text
}

// used returns the kinds of spans that are drawn.
func used(groups []group) map[Kind]bool {
	kinds := map[Kind]bool{}
	for _, g := range groups {
		for _, p := range g.pods {
			for s := range p.all {
				kinds[s.Kind] = true
			}
		}
	}
	return kinds
}

// short returns a text that a tenant may have written for a line of ours.
func short(text string) string {
	if runes := []rune(text); len(runes) > longestReason {
		text = string(runes[:longestReason]) + "..."
	}
	return printable.Line(text)
}

// length returns a duration in words, with "~" if it is known to the second only.
func length(d time.Duration, coarse bool) string {
	switch {
	case coarse && d < second/2:
		return "<1 s"
	case !coarse && d < time.Millisecond:
		return "<1 ms"
	case coarse && d < time.Minute:
		return fmt.Sprintf("~%d s", int(d.Round(second).Seconds()))
	case coarse:
		return "~" + d.Round(second).String()
	case d < second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return d.Round(second).String()
}

// sourcesOf says who tells the times of a pod.
func (p *Pod) sourcesOf() string {
	var parts []string
	for _, source := range p.Sources {
		var names []string
		for _, c := range p.Containers {
			if n := len(c.Lives); n > 0 && c.Lives[n-1].Source == source {
				names = append(names, printable.Line(c.Name))
			}
		}
		text := string(source)
		if source == Kubelet || source == TaskRun || source == Events {
			text += ", in whole seconds"
		}
		if len(names) > 0 {
			text += " (" + strings.Join(names, ", ") + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}
