// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/logreader"
)

// An event is a line of the stream events (docs/reference.md#events).
type event struct {
	Time        time.Time `json:"time"`
	Event       string    `json:"event"`
	TraceParent string    `json:"traceparent"`
	File        string    `json:"file"`
	Dependency  string    `json:"dependency"`
	Outcome     string    `json:"outcome"`
	Argv0       string    `json:"argv0"`
	At          string    `json:"at"`
	Signal      string    `json:"signal"`
	Reason      string    `json:"reason"`
	ExitCode    *int      `json:"exitCode"`
}

// stopSignals are the signals by which runtimes and people stop a container.
var stopSignals = []string{"SIGTERM", "SIGINT", "SIGQUIT"}

// clockSkew is by how much the clocks of a node and of this machine may differ. Beyond it,
// a time is wrong, or made up by the container.
const clockSkew = 10 * time.Minute

// recorded tells a start by the events that the log service has of it. Lines that aren't
// events stand for bytes that are missing.
func recorded(record logreader.Record, before prelude, now time.Time) Life {
	l := Life{Source: Logs, began: record.Began().UTC()}
	for _, line := range record.Lines {
		var e event
		if json.Unmarshal(line, &e) != nil || e.Time.Before(l.began.Add(-clockSkew)) || e.Time.After(now.Add(clockSkew)) {
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
func (l *Life) prepares(e event, before prelude) bool {
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
			s.ExitCode = e.ExitCode
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
func (l *Life) runs(e event) {
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
			s.ExitCode = e.ExitCode
		}
		l.begin(Ending, e.Time)
	case "finished":
		l.end(e.Time)
		l.Reason, l.ExitCode = e.Reason, e.ExitCode
	}
}

// needOf returns what an event says is waited for. Files are those by which Tekton's
// entrypoints tell each other: the flags of the pod say whose.
func needOf(e event, before prelude) need {
	if on, condition, is := strings.Cut(e.Dependency, ":"); is {
		return need{on, condition}
	}
	if len(before.needs) == 1 && before.needs[0].isStep() {
		return before.needs[0]
	}
	return need{on: e.File}
}
