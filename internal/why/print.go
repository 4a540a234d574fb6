// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/entrypointer/entrypointer/internal/printable"
)

// mostShown is how many pods are shown to people.
const mostShown = 20

// Print writes an answer for people. A wide one also has the images, from where the commands
// come, and the options that have their defaults.
func (a *Answer) Print(w io.Writer, now time.Time, wide bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s in namespace %s\n", a.Target, a.Namespace)
	if a.Now != nil {
		fmt.Fprintf(&b, "\nA pod that is created now %s.\n", printable.Line(meaningOf(a.Now.Reason).is))
		a.Now.print(&b, wide)
	}
	for at, d := range a.Pods {
		if at == mostShown {
			fmt.Fprintf(&b, "\n%d more pods aren't shown; -o json has them.\n", len(a.Pods)-at)
			break
		}
		fmt.Fprintf(&b, "\npod/%s (%s old) %s.\n", d.Pod, duration.HumanDuration(now.Sub(d.Created)), printable.Line(meaningOf(d.Reason).is))
		d.print(&b, wide)
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
		(&Decision{Reason: a.Now.Reason, Message: a.Now.Message, Do: a.Now.Do, Next: a.Now.Next}).print(&b, false)
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

func (d *Decision) print(b *strings.Builder, wide bool) {
	if d.Message != "" {
		fmt.Fprintf(b, "  message: %s\n", printable.Line(d.Message))
	}
	if d.Delivery != "" {
		fmt.Fprintf(b, "  delivery: %s\n", printable.Line(string(d.Delivery)))
	}
	for _, c := range d.Containers {
		c.print(b, wide)
	}
	for _, warning := range d.Warnings {
		fmt.Fprintf(b, "  warning: %s\n", printable.Line(warning))
	}
	for _, what := range d.Differs {
		fmt.Fprintf(b, "  differs: %s\n", printable.Line(what))
	}
	if d.Do != "" {
		fmt.Fprintf(b, "  what to do: %s\n", d.Do)
	}
	if d.Next != "" {
		fmt.Fprintf(b, "  next: %s\n", d.Next)
	}
}

func (c *Container) print(b *strings.Builder, wide bool) {
	fmt.Fprintf(b, "  container %s: ", printable.Line(c.Name))
	switch {
	case c.Wrapped && c.State != "":
		fmt.Fprintf(b, "wrapped, %s\n", printable.Line(c.State))
	case c.Wrapped:
		b.WriteString("wrapped\n")
	default:
		fmt.Fprintf(b, "not wrapped: %s\n", printable.Line(c.Why))
	}
	if wide {
		fmt.Fprintf(b, "    image: %s\n", printable.Line(c.Image))
	}
	if from := origins[c.CommandFrom]; wide && from != "" {
		fmt.Fprintf(b, "    command: %s\n", from)
	}
	for _, o := range c.Options {
		if o.Source != "" || wide { // what applies everywhere says nothing
			fmt.Fprintf(b, "    %s: %s (%s)\n", printable.Line(o.Name), printable.Line(o.Value), printable.Line(cmp.Or(o.Source, "by default")))
		}
	}
}

// origins says from where a command line comes.
var origins = map[string]string{
	fromPod: "that of the pod (command: and args:)", fromImage: "that of the image (ENTRYPOINT and CMD), which was looked up",
}
