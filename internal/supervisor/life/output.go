// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package life

import (
	"time"

	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/output"
)

// OpenOutput connects the Output if the flags ask for it.
func (l *Life) OpenOutput() {
	if l.Output == nil {
		return
	}
	if err := l.Output.Open(l.startBeside); err != nil {
		l.Tell(err.Error())
		return
	}
	l.output = l.Output
	console.Redirect(l.output.WriteLine)
}

// CloseOutput leaves the Output, which Deliver has closed.
func (l *Life) CloseOutput() { l.output = nil }

// Stdio returns descriptors 0 to 2 for processes that the supervisor starts.
func (l *Life) Stdio(stdin uintptr) []uintptr {
	stdout, stderr := uintptr(1), uintptr(2)
	if l.output != nil {
		stdout, stderr = l.output.Files()
	}
	return []uintptr{stdin, stdout, stderr}
}

// wasStopped reports whether the kubelet may have stopped the container.
func (l *Life) wasStopped() bool {
	return l.StopCame() || l.graceLeft() > 0
}

// graceLeft returns the rest of the grace period, 0 if none has begun.
func (l *Life) graceLeft() time.Duration {
	_, grace := l.output.FlushTimeouts()
	if l.graceBegan.IsZero() {
		return 0
	}
	return max(grace-time.Since(l.graceBegan), 0)
}

const (
	// killMargin is the time between the end of the delivery and the kubelet's SIGKILL, if
	// the grace period is at least twice as long.
	killMargin = 2 * time.Second
	// deliveryAfterStop bounds the delivery of a container that was stopped: a preStop hook
	// may have taken most of the grace period.
	deliveryAfterStop = 10 * time.Second
)

// Deliver waits until the output is delivered, for as long as the Output's patience and
// the pod's grace period allow. A signal that arrives meanwhile may begin the grace period.
func (l *Life) Deliver() {
	if l.output == nil {
		return
	}
	l.output.End()
	l.Event(output.EventFinished, string(l.Reason), l.ExitCode)
	afterEnd, grace := l.output.FlushTimeouts()
	if l.wasStopped() {
		afterEnd = min(afterEnd, deliveryAfterStop)
	}
	deadline := time.Now().Add(afterEnd)
	_ = l.Until(func() time.Duration {
		left := time.Until(deadline)
		if rest := l.graceLeft(); rest > 0 {
			left = min(left, rest-min(killMargin, grace/2))
		}
		if l.output.Flushed() || left <= 0 {
			return Done
		}
		return left
	})
	console.Redirect(nil)
	if missing := l.output.Close(); missing != "" {
		l.Tell(missing)
	}
}
