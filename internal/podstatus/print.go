// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/entrypointer/entrypointer/internal/printable"
)

// mostShown is how many pods are shown to people: the newest ones.
const mostShown = 20

// Print writes the reports for people, one line for each container. Wide ones also have the
// nodes and IP addresses of pods, and for each container whether it is ready, its restarts, and
// how its run before the last restart has ended.
func (a Answers) Print(w io.Writer, now time.Time, wide bool) error {
	_, err := io.WriteString(w, a.text(wide, func(t time.Time) string {
		return duration.HumanDuration(max(0, now.Sub(t)))
	}))
	return err
}

// Changed reports whether the reports say something else than others, durations aside.
func (a Answers) Changed(others Answers, wide bool) bool {
	without := func(time.Time) string { return "" }
	return a.text(wide, without) != others.text(wide, without)
}

// text returns the reports, with the time since a moment as a function writes it.
func (a Answers) text(wide bool, since func(time.Time) string) string {
	var all []string
	for _, r := range a.Answers {
		if r.Error == "" { // which goes to stderr
			all = append(all, r.text(wide, since))
		}
	}
	return strings.Join(all, "\n")
}

func (r *Report) text(wide bool, since func(time.Time) string) string {
	var b strings.Builder
	if len(r.Pods) == 0 {
		b.WriteString(r.none())
	}
	left := max(0, len(r.Pods)-mostShown)
	if left > 0 {
		fmt.Fprintf(&b, "%d older pods aren't shown; -o json has them.\n\n", left)
	}
	for at, p := range r.Pods[left:] {
		if at > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "pod/%s in namespace %s: %s", p.Name, r.Namespace, printable.Line(p.Phase))
		if wide && p.Node != "" {
			b.WriteString(", on node " + p.Node)
		}
		if wide && p.IP != "" {
			b.WriteString(", IP " + p.IP)
		}
		b.WriteString("\n")
		p.table(&b, wide, since)
	}
	return printable.Text(b.String())
}

// none says that there are no pods, and which command knows more.
func (r *Report) none() string {
	switch {
	case r.isRun && r.ended:
		return fmt.Sprintf("%[1]s in namespace %[2]s has ended, and its pods are gone. If they have sent their output: kubectl entrypointer logs -n %[2]s %[1]s, and timeline.\n", r.Target, r.Namespace)
	case r.isRun:
		return fmt.Sprintf("%s in namespace %s has no pods yet.\n", r.Target, r.Namespace)
	default:
		return fmt.Sprintf("%s in namespace %s has no pods; kubectl entrypointer why says what would happen to one.\n", r.Target, r.Namespace)
	}
}

// table writes what the containers do.
func (p *Pod) table(b *strings.Builder, wide bool, since func(time.Time) string) {
	columns := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	before := "\t" // cells of the lines that explain a status
	if wide {
		fmt.Fprintf(columns, "  CONTAINER\tREADY\tRESTARTS\tPREVIOUS EXIT\tSTATUS\n")
		before = "\t\t\t\t"
	}
	for _, c := range p.Containers {
		if c.Init && c.State == terminated && *c.ExitCode == 0 {
			continue // it has done its work
		}
		cells := c.Name
		if wide {
			previous := "-"
			if c.Previous != nil {
				previous = c.Previous.end(since)
			}
			cells += fmt.Sprintf("\t%s\t%d\t%s", yesOrNo[c.Ready], c.Restarts, previous)
		}
		fmt.Fprintf(columns, "  %s\t%s\n", cells, strings.Join(c.says(wide, since), "\n  "+before+"  "))
	}
	_ = columns.Flush() // into memory
}

var yesOrNo = map[bool]string{true: "yes", false: "no"}

// end says how a run has ended.
func (r *Run) end(since func(time.Time) string) string {
	why := r.Reason
	if r.Supervisor != nil {
		why = cmp.Or(r.Supervisor.Reason, why)
		if r.Supervisor.Signal != "" {
			why += ", " + r.Supervisor.Signal
		}
	}
	return fmt.Sprintf("%d (%s)%s", r.ExitCode, printable.Line(why), ago(since, r.Since))
}

// says returns what a container does in one line, and what explains that in others.
func (c *Container) says(wide bool, since func(time.Time) string) []string {
	lines := []string{c.does(since)}
	if c.Restarts > 0 && !wide { // which has a column
		lines[0] += ", restarted " + times(c.Restarts)
	}
	if s := c.Supervisor; s != nil {
		for _, u := range s.WaitingFor {
			lines = append(lines, printable.Line(u.String()))
		}
		lines = append(lines, quoted(s.Message)...)
	}
	switch {
	case !c.waitsForTurn():
	case c.After == "":
		lines = append(lines, PodStart)
	default:
		lines = append(lines, "the end of "+c.After)
	}
	lines = append(lines, c.ownWords()...)
	if c.Unanswered != "" {
		lines = append(lines, "its supervisor doesn't tell: "+printable.Line(c.Unanswered))
	}
	return lines
}

func times(n int32) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// quoted returns the lines of a text that a container may have written, so that none looks
// like one of ours.
func quoted(text string) (lines []string) {
	for line := range strings.Lines(strings.TrimSpace(text)) {
		lines = append(lines, "| "+strings.TrimRight(line, "\n"))
	}
	return lines
}

// does returns what a container does, as far as the kubelet knows.
func (c *Container) does(since func(time.Time) string) string {
	switch {
	case c.State == "":
		return "isn't created yet"
	case c.State == waiting:
		return "isn't running: " + printable.Line(cmp.Or(c.Reason, "the kubelet gives no reason"))
	case c.State == terminated:
		run := Run{ExitCode: *c.ExitCode, Reason: c.Reason, Since: c.Since, Supervisor: c.Supervisor}
		return "ended with " + run.end(since)
	case !c.Wrapped:
		return "running" + elapsed(since, " for ", c.Since) + ", without the supervisor"
	case c.Supervisor == nil:
		return "running" + elapsed(since, " for ", c.Since)
	default:
		return c.Supervisor.does(since, c.Since)
	}
}

// does returns what a supervisor does whose container runs since a time.
func (s *Supervisor) does(since func(time.Time) string, running time.Time) string {
	switch s.Phase {
	case "Waiting":
		return "waiting" + elapsed(since, " for ", s.WaitingSince, running)
	case "BeforeStart":
		return "running its before-start commands" + elapsed(since, " for ", running)
	case "Paused":
		return "paused " + printable.Line(s.Paused) + elapsed(since, ", for ", running) + " (kubectl entrypointer continue ends the pause)"
	case "Running":
		return "running" + elapsed(since, " for ", s.Started, running)
	case "Stopping":
		return "stopping" + elapsed(since, " for ", s.WaitingSince)
	case "Finished":
		return "finishing: the command has ended" + ago(since, s.Finished)
	default:
		return "in phase " + printable.Line(s.Phase) + ", which a newer release has"
	}
}

// ago says how long ago a moment was, if it is known.
func ago(since func(time.Time) string, moment time.Time) string {
	if text := elapsed(since, " ", moment); text != "" {
		return text + " ago"
	}
	return ""
}

// elapsed returns the time since the first of these moments that is known, behind a word.
func elapsed(since func(time.Time) string, word string, moments ...time.Time) string {
	for _, moment := range moments {
		if moment.IsZero() {
			continue
		}
		if text := since(moment); text != "" {
			return word + text
		}
		break
	}
	return ""
}

// String says what is waited for.
func (u Unmet) String() string {
	what := u.URL
	if what == "" {
		what = u.Container + ":" + u.Condition
	}
	if u.Seen != "" {
		what += " (" + u.Seen + ")"
	}
	return what
}
