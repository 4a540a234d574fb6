// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package life is what all features of the supervisor share in one life of a container:
// its status, its processes, the signals that stop it, and the one loop in which they
// wait.
package life

import (
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/proc"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/output"
	"github.com/entrypointer/entrypointer/internal/supervisor/report"
	"github.com/entrypointer/entrypointer/internal/supervisor/terminal"
)

// A Life is one run of a command, from the wait before its start to the reports after
// its end.
type Life struct {
	report.Status
	Options
	Term terminal.Terminal // of the command, while it runs

	publisher       report.Publisher
	output          output.Output // nil if the command uses the container's own stdout and stderr
	children        []*Process    // started by the supervisor
	parts           []Part
	graceBegan      time.Time // when a signal arrived that may be a stop by the kubelet, if there is an Output
	refusalReported [signals.Last + 1]bool
	killsBefore     int // OOM kills in the container before the command's start
}

// Options are what a Life knows of the command line.
type Options struct {
	Reports    bool           // whether the status can contain more than that the command runs
	StatusFile string         // "" for none
	Output     output.Output  // nil if the flags ask for none
	StopSignal syscall.Signal // by which the kubelet stops the container
	EndSignals []syscall.Signal
}

// New begins a life.
func New(o Options) *Life {
	return &Life{Options: o, publisher: report.OpenPublisher(o.StatusFile, o.Reports)}
}

// SetPhase sets the phase and publishes the status.
func (l *Life) SetPhase(phase report.Phase) {
	l.Phase = phase
	if l.output != nil {
		l.Logs = l.output.Status()
	}
	if l.Reports {
		l.publisher.Publish(l.JSON())
	}
}

// Tell makes text the message of the status, and prints it.
func (l *Life) Tell(text string) {
	l.Message = text
	console.Say(text)
}

// ShowWait publishes what the container waits for, in this phase, if that has changed.
func (l *Life) ShowWait(phase report.Phase, wait report.WaitStatus) {
	if report.DescribeUnmet(wait.Unmet) != report.DescribeUnmet(l.Waiting.Unmet) {
		l.Waiting = wait
		l.SetPhase(phase)
	}
}

// CountKillsFromNow begins to count OOM kills, if the status can contain their number.
func (l *Life) CountKillsFromNow() { l.killsBefore = l.countOOMKills() }

func (l *Life) countOOMKills() int {
	if !l.Reports {
		return 0
	}
	return proc.OOMKills()
}

// RecordEnd records how the command ended.
func (l *Life) RecordEnd(end syscall.WaitStatus) {
	l.Ended, l.Command, l.ExitCode = true, outcome.ExitCode(end), outcome.ExitCode(end)
	l.Reason = outcome.Exited
	l.OOMKills = l.countOOMKills() - l.killsBefore
	if end.Signaled() {
		l.Signal = end.Signal()
		l.Reason = outcome.Signalled
	}
	// A shell reports the SIGKILL of its child by this exit code.
	if l.OOMKills > 0 && l.ExitCode == 128+int(syscall.SIGKILL) {
		l.Reason = outcome.OOMKilled
	}
	l.Event(output.EventExited, "", int(end))
	if l.OOMKills > 0 {
		l.Event(output.EventOOMKilled, "", l.OOMKills)
	}
}

// Event passes an event to the Output, if there is one.
//
//go:noinline
func (l *Life) Event(e output.Event, text string, number int) {
	if l.output != nil {
		l.output.Event(e, text, number)
	}
}

// RecordSignals passes the signals that have arrived since the last call to the Output,
// one event per signal number. A running command has already got them.
func (l *Life) RecordSignals() {
	if l.output == nil {
		return
	}
	for sig := range signals.Arrivals() {
		l.noteStop(sig)
		l.Event(output.EventSignal, "", int(sig))
	}
}

// noteStop notes a signal by which the kubelet may be stopping the container, so that its
// grace period begins. The image chooses this signal (STOPSIGNAL). A signal that the
// container has outlived by a grace period was another one.
func (l *Life) noteStop(sig syscall.Signal) {
	_, grace := l.output.FlushTimeouts()
	if signals.CanHold(sig) && (l.graceBegan.IsZero() || time.Since(l.graceBegan) > grace) {
		l.graceBegan = time.Now()
	}
}

// ReportRefused prints which signals the kernel did not let the supervisor send to the
// command, once for each signal. The command may have changed its user (setuid(2)) to
// one that the supervisor may not signal (kill(2)). Without a supervisor, it would have
// received signals from outside the container as PID 1.
func (l *Life) ReportRefused() {
	for sig, err := range signals.Refusals() {
		if l.refusalReported[sig] {
			continue
		}
		l.refusalReported[sig] = true
		text := "forwarding " + signals.Name(sig) + " to the command: " + err.Error()
		if err == syscall.EPERM {
			text += ": " + OtherUser
		}
		l.Tell(text)
		l.SetPhase(l.Phase)
	}
}

// OtherUser explains why the kernel doesn't let the supervisor signal its child, and
// what to do.
const OtherUser = "it runs as another user than the container's: run the container as that user, or set mode: exec"
