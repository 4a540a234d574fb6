// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package equality

import (
	"cmp"
	"fmt"
	"strings"
)

// Finding is what was found out about an example.
type Finding struct {
	Example string
	Skipped *Skipped // if it didn't run
	Verdict string   // of its runs, unwrapped
	Varies  []string // see [Comparison]
	Differs []string // what differs, and how
	Why     Cause    // of what differs; "" if nobody knows
}

func (f Finding) equal() bool { return f.Skipped == nil && len(f.Differs) == 0 }

func (f Finding) different() bool { return f.Skipped == nil && len(f.Differs) > 0 }

// why says why it differs, or else what differs.
func (f Finding) why() string {
	if f.Why == "" {
		return "unexplained. " + strings.Join(f.Differs, "; ")
	}
	return string(f.Why)
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

// Summary is the table in the README.
func (r Report) Summary() string {
	var text strings.Builder
	fmt.Fprintf(&text, "Every example of Tekton %s runs in a namespace that didn't opt in, in one that did, and in one that also sends its logs (`logs: tee`). "+
		"Success or failure, reasons, messages, results, artifacts, exit codes, step states, retries, skipped tasks: all must be the same. "+
		"[docs/equality.md](docs/equality.md) has the rules, and each example.\n\n", r.Version)
	fmt.Fprintln(&text, "| | TaskRuns | PipelineRuns |")
	fmt.Fprintln(&text, "| --- | ---: | ---: |")
	r.row(&text, "examples", func(Finding) bool { return true })
	r.row(&text, "ran in all three", func(f Finding) bool { return f.Skipped == nil })
	r.row(&text, "**equal**", Finding.equal)
	r.row(&text, "**different**, explained below", func(f Finding) bool { return f.different() && f.Why != "" })
	r.row(&text, "**different**, unexplained", func(f Finding) bool { return f.different() && f.Why == "" })
	for _, rule := range Rules {
		is := func(f Finding) bool { return f.Skipped != nil && f.Skipped.Rule == rule }
		if r.count("", is) > 0 {
			r.row(&text, "didn't run, because it "+string(rule), is)
		}
	}
	if r.count("", Finding.different) > 0 {
		fmt.Fprintln(&text)
	}
	for _, f := range r.Findings {
		if f.different() {
			fmt.Fprintf(&text, "- %s: %s\n", f.Example, f.why())
		}
	}
	return text.String()
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

const explanation = `# Wrapped or not, nobody can tell

This page is made by ` + "`make equality ARGS=-update`" + `, on the cluster that ` + "`make up`" + ` starts. It runs the examples of Tekton %s, which are in its Go module (` + "`examples/v1/{taskruns,pipelineruns}`" + `, subdirectories and all), each in a namespace that opted in, in one that also sends its logs to the log service (` + "`entrypointer.dev/logs: tee`" + `) and, at the same time, in one that did neither.

**What is changed in an example.** A reference to an image is replaced by the image here of the same kind, without tag and digest; its kind is the last element of its repository's path. There are: %s. (` + "`nop`" + ` is Tekton's own.) ` + "`generateName`" + ` becomes a name, so that the same things have the same names, and namespaces are left out. Nothing else.

**What must be the same.** All that the status of each TaskRun and PipelineRun says, of children, grandchildren and retries too: success or failure, reason, message, results, artifacts; each step's name, container, state, reason, termination reason, exit code, signal, results, inputs and outputs; the names of sidecars; skipped tasks and why. What is left out: times, identifiers of objects, pods and images, and what a sidecar was doing when Tekton stopped it.

**What may differ.** Nothing, but for fields in which the example doesn't agree with itself: if anything differs, the example runs unwrapped again, twice at most, and a field in which not even the unwrapped runs agree (a date, a random number, a volume's generated name) is not compared. It is named below. A difference in any other field fails the test, unless its cause is seen and known: the table says which.

**That it was wrapped** is looked at in each pod of a namespace that opted in: every step runs under the entrypoint, no sidecar does, and either all of these send their logs or none; and in each pod of the one that didn't, that nothing of ours is there.

Volumes: where the cluster has no storage class, the test makes the volumes that are claimed.
`

// Details is the page of the docs.
func (r Report) Details() string {
	var text strings.Builder
	fmt.Fprintf(&text, explanation, r.Version, "`"+strings.Join(r.Images, "`, `")+"`")
	fmt.Fprintln(&text, "\n## What ran")
	fmt.Fprintln(&text, "\n| example | unwrapped | wrapped, with logs and without | varies by itself |")
	fmt.Fprintln(&text, "| --- | --- | --- | --- |")
	for _, f := range r.Findings {
		if f.Skipped == nil {
			wrapped := "equal"
			if f.different() {
				wrapped = cell(fmt.Sprintf("%s: %s", cmp.Or(f.Why, "unexplained"), strings.Join(f.Differs, "; ")))
			}
			fmt.Fprintf(&text, "| %s | %s | %s | %s |\n", f.Example, cell(f.Verdict), wrapped, cell(strings.Join(f.Varies, ", ")))
		}
	}
	fmt.Fprintln(&text, "\n## What didn't")
	for _, rule := range Rules {
		var lines []string
		for _, f := range r.Findings {
			if f.Skipped != nil && f.Skipped.Rule == rule {
				lines = append(lines, fmt.Sprintf("| %s | %s |\n", f.Example, cell(f.Skipped.Detail)))
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(&text, "\nBecause it %s:\n\n| example | what |\n| --- | --- |\n%s", rule, strings.Join(lines, ""))
		}
	}
	return text.String()
}

// agrees tells whether the page of the docs says the same of an example: that it
// was equal, that it differed for the same cause, or that it didn't run.
func (f Finding) agrees(page string) bool {
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "| "+f.Example+" |") {
			continue
		}
		ran := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") == 5
		equal := strings.Contains(line, " | equal | ")
		switch {
		case f.Skipped != nil:
			return !ran
		case f.different():
			return ran && !equal && strings.Contains(line, " | "+string(f.Why)+": ")
		default:
			return ran && equal
		}
	}
	return false
}

// cell is text in a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}
