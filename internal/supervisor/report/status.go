// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package report has the status of the container and its command, in words and as JSON,
// and publishes it.
package report

import (
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
)

// A Phase is how far the supervisor has come.
type Phase string

// The phases.
const (
	Waiting     Phase = "Waiting"     // for other containers or targets, or for files (-wait-file and the like)
	BeforeStart Phase = "BeforeStart" // a before-start hook runs
	Paused      Phase = "Paused"
	Running     Phase = "Running"
	Stopping    Phase = "Stopping" // the stop signal has arrived, or the supervisor ends the command
	Finished    Phase = "Finished"
)

// Status is the state of the container and its command. docs/reference.md describes its
// JSON.
type Status struct {
	Phase        Phase
	Paused       string // the place, in phase Paused
	Waiting      WaitStatus
	Started      time.Time
	StartupProbe string // one of the startup constants, "" if the supervisor tries no startupProbe
	Finished     time.Time
	Ended        bool // the command has ended, and its exit code is known
	ExitCode     int  // of the container
	Command      int  // exit code of the command
	Signal       syscall.Signal
	Reason       outcome.Reason
	OOMKills     int
	Message      string
	Logs         string // a JSON object, "" without an Output
}

// The states of a startupProbe.
const (
	StartupPending   = "pending"
	StartupSucceeded = "succeeded"
	StartupFailed    = "failed"
)

// maxMessage limits the message, so that a termination message, for which Kubernetes
// allows 4096 bytes, has room for the other fields.
const maxMessage = 1500

// JSON returns the status as a JSON object in one line. Package encoding/json would
// double the size of the program.
func (s *Status) JSON() []byte {
	var o object
	o.str("phase", string(s.Phase))
	if s.Paused != "" {
		o.str("paused", s.Paused)
	}
	if len(s.Waiting.Unmet) > 0 {
		o.waitStatus(s.Waiting)
	}
	if !s.Started.IsZero() {
		o.str("started", s.Started.UTC().Format(time.RFC3339Nano))
	}
	if s.StartupProbe != "" {
		o.str("startupProbe", s.StartupProbe)
	}
	if !s.Finished.IsZero() {
		o.str("finished", s.Finished.UTC().Format(time.RFC3339Nano))
	}
	if s.Reason != "" {
		o.str("reason", string(s.Reason))
		o.number("exitCode", s.ExitCode)
	}
	if s.Ended {
		o.number("commandExitCode", s.Command)
	}
	if s.Signal != 0 {
		o.str("signal", signals.Name(s.Signal))
	}
	if s.OOMKills > 0 {
		o.number("oomKills", s.OOMKills)
	}
	if s.Message != "" {
		o.str("message", s.Message[:min(len(s.Message), maxMessage)])
	}
	if s.Logs != "" {
		o.key("logs")
		o.buf = append(o.buf, s.Logs...)
	}
	return o.end()
}

// maxWaiting limits the number of dependencies in a status, which must not exceed
// maxStatus.
const maxWaiting = 10

// maxSeen limits the length of an observation in a status, for the same reason: another
// container may have written a part of it.
const maxSeen = 120

// maxURL limits the length of a target's URL in a status, for the same reason.
const maxURL = 128

func (o *object) waitStatus(w WaitStatus) {
	o.str("waitingSince", w.Since.UTC().Format(time.RFC3339Nano))
	o.key("waitingFor")
	for i, u := range w.Unmet[:min(len(w.Unmet), maxWaiting)] {
		var one object
		if u.URL != "" {
			one.str("url", u.URL[:min(len(u.URL), maxURL)])
		} else {
			one.str("container", u.Name())
			one.str("condition", string(u.Condition))
		}
		one.str("seen", u.Seen[:min(len(u.Seen), maxSeen)])
		o.buf = append(o.buf, "[,"[min(i, 1)])
		o.buf = append(append(o.buf, one.buf...), '}')
	}
	o.buf = append(o.buf, ']')
}
