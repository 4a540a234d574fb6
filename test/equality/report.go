// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package equality

import (
	"fmt"
	"slices"
	"strings"
)

// Finding is what was found out about an example.
type Finding struct {
	Example string
	Skipped *Skipped           // if it didn't run
	Verdict string             // of its runs, unwrapped
	Varies  []string           // see [Varies]
	Ways    map[Way]Difference // those in which it ran
}

// Difference is what differs in one way, and how; nothing, if it is equal.
type Difference struct {
	Fields []string
	Why    Cause // "" if nobody knows
}

func (f Finding) ran(way Way) bool {
	_, ran := f.Ways[way]
	return ran
}

func (f Finding) equal(way Way) bool { return f.ran(way) && len(f.Ways[way].Fields) == 0 }

func (f Finding) different(way Way) bool { return len(f.Ways[way].Fields) > 0 }

func (f Finding) unexplained(way Way) bool { return f.different(way) && f.Ways[way].Why == "" }

// why says why it differs, or else what differs.
func (d Difference) why() string {
	if d.Why == "" {
		return "unexplained. " + strings.Join(d.Fields, "; ")
	}
	return string(d.Why)
}

func (f Finding) directory() string {
	directory, _, _ := strings.Cut(f.Example, "/")
	return directory
}

// Report is the findings about every example of a version of Tekton.
type Report struct {
	Version  string
	Images   []string // kinds
	Findings []Finding
}

// Headline is the paragraph in the README.
func (r Report) Headline() string {
	ran := r.count("", func(f Finding) bool { return f.Skipped == nil })
	var equal []string
	for _, way := range Ways {
		equal = append(equal, fmt.Sprintf("%d by %s", r.count("", func(f Finding) bool { return f.equal(way) }), way))
	}
	return fmt.Sprintf("Tekton's own examples come out the same with entrypointer: success or failure, reasons, messages, results, artifacts, exit codes, step states, retries. "+
		"Of the %d examples of Tekton %s that the test cluster can run, these are equal to the unwrapped run: %s. "+
		"[Equality](docs/equality.md) names each example, and explains each difference.\n", ran, r.Version, strings.Join(equal, "; "))
}

// Summary counts the examples in a table.
func (r Report) Summary() string {
	var text strings.Builder
	fmt.Fprintln(&text, "| | TaskRuns | PipelineRuns |")
	fmt.Fprintln(&text, "| --- | ---: | ---: |")
	r.row(&text, "examples", func(Finding) bool { return true })
	r.row(&text, "ran in each way", func(f Finding) bool { return f.Skipped == nil })
	for _, way := range Ways {
		r.row(&text, fmt.Sprintf("**equal** by %s", way), func(f Finding) bool { return f.equal(way) })
	}
	for _, way := range Ways {
		explained := func(f Finding) bool { return f.different(way) && !f.unexplained(way) }
		if r.count("", explained) > 0 {
			r.row(&text, fmt.Sprintf("**different** by %s, explained below", way), explained)
		}
	}
	r.row(&text, "**different**, unexplained", func(f Finding) bool { return slices.ContainsFunc(Ways, f.unexplained) })
	for _, rule := range Rules {
		is := func(f Finding) bool { return f.Skipped != nil && f.Skipped.Rule == rule }
		if r.count("", is) > 0 {
			r.row(&text, "skipped: "+string(rule), is)
		}
	}
	return text.String()
}

// differences has an item of a list for each example that differs, and for each
// thing that is to be said of it, with the ways of which that is so.
func (r Report) differences(say func(Difference) string) (items []string) {
	for _, f := range r.Findings {
		var said []string
		in := map[string][]string{}
		for _, way := range Ways {
			if f.different(way) {
				text := say(f.Ways[way])
				if !slices.Contains(said, text) {
					said = append(said, text)
				}
				in[text] = append(in[text], string(way))
			}
		}
		for _, text := range said {
			items = append(items, fmt.Sprintf("- %s (%s): %s\n", f.Example, strings.Join(in[text], "; "), text))
		}
	}
	return items
}

func (r Report) row(text *strings.Builder, what string, is func(Finding) bool) {
	fmt.Fprintf(text, "| %s | %d | %d |\n", what, r.count("taskruns", is), r.count("pipelineruns", is))
}

// count counts findings, those of one directory if there is one.
func (r Report) count(directory string, is func(Finding) bool) (n int) {
	for _, finding := range r.Findings {
		if (directory == "" || finding.directory() == directory) && is(finding) {
			n++
		}
	}
	return n
}

const explanation = `# Tekton's examples, wrapped and unwrapped

` + "`make equality ARGS=-update`" + ` makes this page, on the cluster that ` + "`make up`" + ` starts. It runs the examples of Tekton %s, from Tekton's Go module (` + "`examples/v1/{taskruns,pipelineruns}`" + ` and subdirectories). Each example runs unwrapped, in a namespace that didn't opt in, and at the same time in several namespaces that did: one with the init container, one with the init container that also sends its logs to the log service (` + "`entrypointer.dev/logs: tee`" + `), and one with an image volume (` + "`entrypointer.dev/delivery: image-volume`" + `).

**What is changed in an example.** Each image reference is replaced by an image of the test cluster. Tag and digest are ignored: the last element of the repository's path decides. The cluster has these images: %s. (` + "`nop`" + ` is Tekton's own.) ` + "`generateName`" + ` becomes a fixed name, so that the same objects have the same names, and namespaces are removed. Everything else stays.

**What must be the same.** The whole status of each TaskRun and PipelineRun, including children, grandchildren and retries: success or failure, reason, message, results, artifacts; each step's name, container, state, reason, termination reason, exit code, signal, results, inputs and outputs; the names of sidecars; skipped tasks and the reasons. The comparison ignores times, identifiers of objects, pods and images, and the state in which Tekton stopped a sidecar.

**What may differ.** Only fields that vary by themselves: if anything differs, the example runs unwrapped again, twice at most, and a field that differs between the unwrapped runs (a date, a random number, a volume's generated name) is not compared. The table names such fields. A difference in any other field fails the test, unless the test detects a known cause, which is given below the table.

**Whether pods are wrapped** is checked in each pod. In a namespace that opted in, every step runs under the supervisor, no sidecar does, the delivery is the namespace's, and either all steps send their logs or none does. In the other namespace, pods contain nothing of entrypointer.

Volumes: if the cluster has no storage class, the test itself creates the volumes for claims.
`

// Details is the page of the docs.
func (r Report) Details() string {
	var text strings.Builder
	fmt.Fprintf(&text, explanation, r.Version, "`"+strings.Join(r.Images, "`, `")+"`")
	fmt.Fprintf(&text, "\n## In short\n\n%s", r.Summary())
	fmt.Fprintln(&text, "\n## What ran")
	head, line := "\n| example | unwrapped |", "| --- | --- |"
	for _, way := range Ways {
		head, line = head+fmt.Sprintf(" %s |", way), line+" --- |"
	}
	fmt.Fprintf(&text, "%s varies by itself |\n%s --- |\n", head, line)
	for _, f := range r.Findings {
		if f.Skipped == nil {
			fmt.Fprintf(&text, "| %s | %s |", f.Example, cell(f.Verdict))
			for _, way := range Ways {
				fmt.Fprintf(&text, " %s |", f.inOneWord(way))
			}
			fmt.Fprintf(&text, " %s |\n", cell(strings.Join(f.Varies, ", ")))
		}
	}
	if differences := r.differences(func(d Difference) string { return item(d.why() + " " + strings.Join(d.Fields, "; ")) }); len(differences) > 0 {
		fmt.Fprintf(&text, "\nWhat differs, and why:\n\n%s", strings.Join(differences, ""))
	}
	fmt.Fprintln(&text, "\n## What was skipped")
	for _, rule := range Rules {
		var lines []string
		for _, f := range r.Findings {
			if f.Skipped != nil && f.Skipped.Rule == rule {
				lines = append(lines, fmt.Sprintf("| %s | %s |\n", f.Example, cell(f.Skipped.Detail)))
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(&text, "\nAn example is skipped if it %s:\n\n| example | what |\n| --- | --- |\n%s", rule, strings.Join(lines, ""))
		}
	}
	return text.String()
}

// inOneWord says how an example compares in one way.
func (f Finding) inOneWord(way Way) string {
	switch {
	case f.equal(way):
		return "equal"
	case f.different(way):
		return "different"
	default:
		return ""
	}
}

// agrees tells whether the page of the docs says the same of an example, in the ways
// in which it ran: that it was equal, that it differed for the same cause, or that it
// didn't run.
func (f Finding) agrees(page string) bool {
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "| "+f.Example+" |") {
			continue
		}
		cells := strings.Split(strings.ReplaceAll(line, `\|`, ""), "|")
		if ran := len(cells) == 5+len(Ways); !ran || f.Skipped != nil {
			return !ran && f.Skipped != nil
		}
		for at, way := range Ways {
			if f.ran(way) && (strings.TrimSpace(cells[3+at]) != f.inOneWord(way) || !f.causeAgrees(page, way)) {
				return false
			}
		}
		return true
	}
	return false
}

// causeAgrees tells whether the page gives the same cause, if there is one to be given.
func (f Finding) causeAgrees(page string, way Way) bool {
	if !f.different(way) {
		return true
	}
	for line := range strings.Lines(page) {
		ways, said, is := strings.Cut(line, "): ")
		if is && strings.HasPrefix(ways, "- "+f.Example+" (") && strings.HasPrefix(said, f.Ways[way].why()) &&
			slices.Contains(strings.Split(strings.TrimPrefix(ways, "- "+f.Example+" ("), "; "), string(way)) {
			return true
		}
	}
	return false
}

// cell is text in a cell of a table.
func cell(text string) string { return strings.ReplaceAll(item(text), "|", `\|`) }

// item is text in an item of a list.
func item(text string) string { return strings.NewReplacer("\n", " ", "<", "&lt;").Replace(text) }
