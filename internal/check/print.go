// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/entrypointer/entrypointer/internal/printable"
)

// marks stand before the checks. They have the same width.
var marks = map[State]string{Passed: "ok     ", Skipped: "-      ", Warning: "warning", Unknown: "unknown", Failed: "FAILED "}

// Print writes a report for people. Checks for which only a right is missing are named
// together, because to a tenant that is most of them.
func (r *Report) Print(w io.Writer) error {
	var b, lacking strings.Builder
	var last, lastLacking string
	for _, result := range r.Checks {
		if result.lacksRights() {
			if result.Category != lastLacking {
				lastLacking = result.Category
				fmt.Fprintf(&lacking, "\n  %s: %s", result.Category, result.Check)
				continue
			}
			lacking.WriteString("; " + result.Check)
			continue
		}
		if result.Category != last {
			last = result.Category
			fmt.Fprintf(&b, "%s\n", result.Category)
		}
		result.print(&b)
	}
	if lacking.Len() > 0 {
		fmt.Fprintf(&b, "\nUnknown to you, because they need an operator's rights (-o json names the rights):%s\n", lacking.String())
	}
	fmt.Fprintf(&b, "\nok: %d, warnings: %d, failed: %d, unknown: %d, not applicable: %d\n",
		r.Count(Passed), r.Count(Warning), r.Count(Failed), r.Count(Unknown), r.Count(Skipped))
	_, err := io.WriteString(w, printable.Text(b.String()))
	return err
}

// lacksRights reports whether a check has no result for lack of rights alone.
func (r *Result) lacksRights() bool {
	return r.State == Unknown && !slices.ContainsFunc(r.Findings, func(f Finding) bool { return !f.lacksRight })
}

func (r *Result) print(b *strings.Builder) {
	fmt.Fprintf(b, "  %s  %s", marks[r.State], r.Check)
	if r.Note != "" && len(r.Findings) == 0 {
		fmt.Fprintf(b, " (%s)", printable.Line(r.Note))
	}
	b.WriteString("\n")
	const indent = "             "
	for _, f := range r.Findings {
		fmt.Fprintf(b, "%s%s\n", indent[4:], printable.Line(f.Message))
		if f.Next != "" {
			fmt.Fprintf(b, "%snext: %s\n", indent, printable.Line(f.Next))
		}
	}
	if r.State == Failed || r.State == Warning {
		fmt.Fprintf(b, "%ssee: %s\n", indent[4:], r.Page)
	}
}

// Table returns the checks as a table in Markdown, for docs/cli.md.
func Table() string {
	var b strings.Builder
	b.WriteString("| about | what should be true | explained in |\n| --- | --- | --- |\n")
	for _, c := range slices.Concat(always, before, after) {
		file, _, _ := strings.Cut(c.page, "#")
		link := c.page
		if file == "cli.md" {
			link = strings.TrimPrefix(link, file)
		}
		fmt.Fprintf(&b, "| %s | %s | [%s](%s) |\n", c.category, c.about, strings.TrimSuffix(file, ".md"), link)
	}
	return b.String()
}
