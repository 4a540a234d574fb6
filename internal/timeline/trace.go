// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/internal/logs/events"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/pkg/traceids"
)

// traceFlag is the flag by which admission tells the supervisor the trace of its command, and
// ofVariable precedes the name of a variable with the UID of the pod in the place of the trace.
const traceFlag, ofVariable = "-trace=", "env:"

// traceOf returns the id of the trace in which a container's command works, "" if it isn't known
// or isn't recorded. If the log service has the events of a start, they tell it: there is none in
// them if the author has set another trace. What admission has asked for counts otherwise.
func traceOf(c *Container, spec *corev1.Container, uid string) string {
	isTold := false
	for _, l := range c.Lives {
		if l.trace != "" {
			return l.trace
		}
		isTold = isTold || l.Source == Logs
	}
	flags := pod.Flags(*spec)
	const variable = traceids.ParentVariable
	isAuthors := slices.ContainsFunc(spec.Env, func(v corev1.EnvVar) bool { return v.Name == variable }) ||
		slices.ContainsFunc(flags, func(flag string) bool { return strings.HasPrefix(flag, "-env="+variable+"=") })
	if isTold || isAuthors {
		return ""
	}
	for _, flag := range flags {
		if value, is := strings.CutPrefix(flag, traceFlag); is {
			if strings.HasPrefix(value, ofVariable) {
				value = uid
			}
			return recordedTrace(traceids.From(value))
		}
	}
	return ""
}

// identify takes the trace of the first event that has one. The container writes its events.
func (l *Life) identify(e events.Event) {
	if l.trace == "" {
		l.trace = recordedTrace(traceids.Parse(e.TraceParent))
	}
}

// recordedTrace returns the id of the trace of a span, "" for a trace that isn't recorded.
func recordedTrace(span traceids.Parent, ok bool) string {
	if !ok || span.Flags&traceids.Sampled == 0 {
		return ""
	}
	return span.Trace.String()
}
