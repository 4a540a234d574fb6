// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package events decodes the lines of the stream of events, in which a supervisor tells what
// becomes of its container (docs/reference.md#events). Containers can write anything to it.
package events

import (
	"encoding/json"
	"time"
)

// ClockSkew is by how much the clocks of a node and of this machine may differ. Beyond it, a
// time is wrong, or made up by the container.
const ClockSkew = 10 * time.Minute

// An Event is a line of the stream.
type Event struct {
	Time         time.Time `json:"time"`
	Event        string    `json:"event"`
	TraceParent  string    `json:"traceparent"`
	ParentSpanID string    `json:"parentSpanId"`
	File         string    `json:"file"`
	Dependency   string    `json:"dependency"`
	Outcome      string    `json:"outcome"`
	Argv0        string    `json:"argv0"`
	At           string    `json:"at"`
	Signal       string    `json:"signal"`
	Reason       string    `json:"reason"`
	PID          int64     `json:"pid"`
	ExitCode     *int64    `json:"exitCode"`
	Milliseconds int64     `json:"milliseconds"`
	Processes    int64     `json:"processes"`
	Hook         int64     `json:"hook"`
}

// Parse decodes a line. What isn't an event of a possible time, between from and to, stands for
// bytes that are missing.
func Parse(line []byte, from, to time.Time) (e Event, is bool) {
	if json.Unmarshal(line, &e) != nil || e.Time.Before(from) || e.Time.After(to.Add(ClockSkew)) {
		return Event{}, false
	}
	return e, true
}
