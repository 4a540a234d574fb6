// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/logreader"
	"github.com/entrypointer/entrypointer/internal/logs/events"
)

// stopSignals are the signals by which runtimes and people stop a container.
var stopSignals = []string{"SIGTERM", "SIGINT", "SIGQUIT"}

// recorded tells a start by the events that the log service has of it. Lines that aren't
// events stand for bytes that are missing.
func recorded(record logreader.Record, before prelude, now time.Time) Life {
	l := Life{Source: Logs, began: record.Began().UTC()}
	for _, line := range record.Lines {
		e, is := events.Parse(line, l.began.Add(-events.ClockSkew), now)
		if !is {
			continue
		}
		e.Time = e.Time.UTC()
		if l.began.IsZero() {
			l.began = e.Time
		}
		l.identify(e)
		if !l.prepares(e, before) {
			l.runs(e)
		}
	}
	return l
}

// prepares adds an event from before the command's start.
func (l *Life) prepares(e events.Event, before prelude) bool {
	last := l.last()
	switch e.Event {
	case "waiting":
		if !last.goesOn(Waiting) {
			last = l.begin(Waiting, e.Time)
		}
		last.needs = append(last.needs, needOf(e, before))
	case "waited":
		if !last.goesOn(Waiting) { // the wait for a URL or a pipe has no event of its own
			l.begin(Waiting, l.ended()).needs = before.needs
		}
		l.end(e.Time).Outcome = e.Outcome
	case "hookStarted":
		l.begin(Hook, e.Time).For = e.Argv0
	case "hookEnded":
		if s := l.end(e.Time); s != nil {
			s.ExitCode = exitCode(e)
		}
	case "paused":
		l.begin(Paused, e.Time).For = e.At
	case "continued":
		l.end(e.Time)
		if l.find(Running) != nil { // a pause after a failure
			l.begin(Ending, e.Time)
		}
	default:
		return false
	}
	return true
}

// runs adds an event from the command's start on.
func (l *Life) runs(e events.Event) {
	last := l.last()
	switch e.Event {
	case "started":
		if !last.goesOn(Running) {
			l.begin(Running, e.Time)
		}
	case "signal", "stopHeld", "stopPassed", "timeout", "stopWhen":
		isStop := e.Event != "signal" || slices.Contains(stopSignals, e.Signal)
		if isStop && last.goesOn(Running) {
			l.begin(Stopping, e.Time).For = cmp.Or(e.Dependency, e.Signal, e.Event)
		}
	case "exited":
		if s := l.end(e.Time); s != nil {
			s.ExitCode = exitCode(e)
		}
		l.begin(Ending, e.Time)
	case "finished":
		l.end(e.Time)
		l.Reason, l.ExitCode = e.Reason, exitCode(e)
	}
}

func exitCode(e events.Event) *int {
	if e.ExitCode == nil {
		return nil
	}
	return new(int(*e.ExitCode))
}

// needOf returns what an event says is waited for. Files are those by which Tekton's
// entrypoints tell each other: the flags of the pod say whose.
func needOf(e events.Event, before prelude) need {
	if on, condition, is := strings.Cut(e.Dependency, ":"); is {
		return need{on, condition}
	}
	if len(before.needs) == 1 && before.needs[0].isStep() {
		return before.needs[0]
	}
	return need{on: e.File}
}
