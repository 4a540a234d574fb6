// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package trace gives this run of the command a span of a trace, and hands it to the command
// and its hooks, by variables, and to the log service.
package trace

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/launch"
	"github.com/entrypointer/entrypointer/pkg/traceids"
)

// Options are the trace.
type Options struct {
	parent   traceids.Parent // without a span if there is none above; all zeros for no trace
	variable string          // has the UID of the object with which the trace begins, "" for none
	state    string
}

// ofVariable precedes the name of a variable in the value of -trace.
const ofVariable = "env:"

// Flags adds the flags that set o.
func (o *Options) Flags(f *cmdline.Flags) {
	f.Add("trace", "TRACEPARENT|UID|env:NAME", `Set TRACEPARENT to a new span of this trace, after all other variables:
below the span of this TRACEPARENT (W3C Trace Context), or in the trace that
begins with the Kubernetes object of this UID. With env:NAME, the variable has
the UID, and the command doesn't get the variable; if its value is no UID,
there is no trace. Nor is there one if the container or -env sets TRACEPARENT.`, o.setTrace)
	f.Add("trace-state", "TRACESTATE", `Set TRACESTATE as well, which is unset otherwise.`, o.setState)
}

func (o *Options) setTrace(value string) string {
	if name, is := strings.CutPrefix(value, ofVariable); is {
		o.variable = name
		return launch.CheckName(name)
	}
	var ok bool
	if o.parent, ok = traceids.From(value); ok {
		return ""
	}
	return "no trace: use a header traceparent of W3C Trace Context, the UID of a Kubernetes object, or env: and the name of a variable"
}

func (o *Options) setState(value string) string {
	o.state = value
	return ""
}

// of returns the trace that begins with the object of a UID.
func of(uid string) (traceids.Parent, bool) {
	id, ok := traceids.Of(uid)
	return traceids.Parent{Trace: id, Flags: traceids.Sampled}, ok
}

// A Span is that of one run of the command.
type Span struct {
	traceids.Parent // what the command works below

	above traceids.SpanID // all zeros if there is none
	state string
}

// Begin returns the span that the options ask for, nil if they ask for none, if the author has
// set another one, or if the kernel has no random bytes yet: the command doesn't wait for a
// trace. environ returns the container's environment, and is called only for a trace. Of the
// edits, those count that don't depend on files, which may not be there yet.
func (o *Options) Begin(edits *launch.Edits, environ func() []string) *Span {
	s := &Span{Parent: o.parent, above: o.parent.Span, state: o.state}
	if o.variable == "" && s.Trace == (traceids.TraceID{}) {
		return nil
	}
	env := environ()
	if o.variable != "" {
		uid, _ := launch.Getenv(env, o.variable)
		s.Parent, _ = of(uid)
	}
	env, err := edits.ExceptFiles().Apply(env)
	if _, set := launch.Getenv(env, traceids.ParentVariable); set || err != nil || s.Trace == (traceids.TraceID{}) {
		return nil
	}
	n, err := unix.Getrandom(s.Span[:], unix.GRND_NONBLOCK)
	if err != nil || n < len(s.Span) || s.Span == (traceids.SpanID{}) {
		return nil
	}
	return s
}

// Above returns the span above, "" without one.
func (s *Span) Above() string {
	if s.above == (traceids.SpanID{}) {
		return ""
	}
	return s.above.String()
}

// Edit has the command's environment say the span, which may be nil.
func (o *Options) Edit(edits *launch.Edits, s *Span) {
	if o.variable != "" {
		edits.Unset = append(edits.Unset, o.variable)
	}
	if s == nil {
		return
	}
	edits.Last = []string{traceids.ParentVariable + "=" + s.String()}
	if s.state != "" {
		edits.Last = append(edits.Last, traceids.StateVariable+"="+s.state)
	} else {
		edits.LastUnset = []string{traceids.StateVariable} // that of another trace
	}
}
