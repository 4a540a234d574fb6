// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/entrypointer/entrypointer/internal/printable"
)

// mostShown is how many pods are shown to people.
const mostShown = 20

// Print writes an answer for people.
func (a *Answer) Print(w io.Writer, now time.Time) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s in namespace %s\n", a.Target, a.Namespace)
	if a.Now != nil {
		fmt.Fprintf(&b, "\nA pod that is created now %s.\n", printable.Line(meaningOf(a.Now.Reason).is))
		a.Now.print(&b, "  ")
	}
	for at, d := range a.Pods {
		if at == mostShown {
			fmt.Fprintf(&b, "\n%d more pods aren't shown; -o json has them.\n", len(a.Pods)-at)
			break
		}
		fmt.Fprintf(&b, "\npod/%s (%s old) %s.\n", d.Pod, duration.HumanDuration(now.Sub(d.Created)), printable.Line(meaningOf(d.Reason).is))
		d.print(&b, "  ")
	}
	for _, what := range a.Unknown {
		fmt.Fprintf(&b, "\nUnknown: %s.\n", what)
	}
	_, err := io.WriteString(w, printable.Text(b.String()))
	return err
}

// Explain writes what a decision has to say beside the pod itself: why it isn't wrapped,
// warnings, and what is unknown.
func (a *Answer) Explain(w io.Writer) {
	var b strings.Builder
	if a.Now != nil && !a.Now.Reason.isWrapped() {
		fmt.Fprintf(&b, "%s %s\n", a.Target, printable.Line(meaningOf(a.Now.Reason).is))
		(&Decision{Reason: a.Now.Reason, Message: a.Now.Message, Do: a.Now.Do, Next: a.Now.Next}).print(&b, "  ")
	}
	if a.Now != nil {
		for _, warning := range a.Now.Warnings {
			fmt.Fprintf(&b, "Warning: %s\n", printable.Line(warning))
		}
	}
	for _, what := range a.Unknown {
		fmt.Fprintf(&b, "unknown: %s\n", what)
	}
	_, _ = io.WriteString(w, printable.Text(b.String())) // it is beside the output
}

func (d *Decision) print(b *strings.Builder, indent string) {
	if d.Message != "" {
		fmt.Fprintf(b, "%smessage: %s\n", indent, printable.Line(d.Message))
	}
	if d.Delivery != "" {
		fmt.Fprintf(b, "%sdelivery: %s\n", indent, printable.Line(string(d.Delivery)))
	}
	for _, c := range d.Containers {
		fmt.Fprintf(b, "%scontainer %s: ", indent, c.Name)
		switch {
		case c.Wrapped && c.State != "":
			fmt.Fprintf(b, "wrapped, %s\n", printable.Line(c.State))
		case c.Wrapped:
			b.WriteString("wrapped\n")
		default:
			fmt.Fprintf(b, "not wrapped: %s\n", printable.Line(c.Why))
		}
		for _, o := range c.Options {
			if o.Source != "" { // what applies everywhere says nothing
				fmt.Fprintf(b, "%s  %s: %s (%s)\n", indent, o.Name, printable.Line(o.Value), printable.Line(o.Source))
			}
		}
	}
	for _, warning := range d.Warnings {
		fmt.Fprintf(b, "%swarning: %s\n", indent, printable.Line(warning))
	}
	for _, what := range d.Differs {
		fmt.Fprintf(b, "%sdiffers: %s\n", indent, printable.Line(what))
	}
	if d.Do != "" {
		fmt.Fprintf(b, "%swhat to do: %s\n", indent, d.Do)
	}
	if d.Next != "" {
		fmt.Fprintf(b, "%snext: %s\n", indent, d.Next)
	}
}
