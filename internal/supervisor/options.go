// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"slices"
	"syscall"

	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/ending"
	"github.com/entrypointer/entrypointer/internal/supervisor/handoff"
	"github.com/entrypointer/entrypointer/internal/supervisor/hooks"
	"github.com/entrypointer/entrypointer/internal/supervisor/launch"
	"github.com/entrypointer/entrypointer/internal/supervisor/life"
	"github.com/entrypointer/entrypointer/internal/supervisor/output"
	"github.com/entrypointer/entrypointer/internal/supervisor/pause"
	"github.com/entrypointer/entrypointer/internal/supervisor/pipe"
	"github.com/entrypointer/entrypointer/internal/supervisor/presence"
	"github.com/entrypointer/entrypointer/internal/supervisor/report"
	"github.com/entrypointer/entrypointer/internal/supervisor/sidecars"
	"github.com/entrypointer/entrypointer/internal/supervisor/startorder"
	"github.com/entrypointer/entrypointer/internal/supervisor/startup"
	"github.com/entrypointer/entrypointer/internal/supervisor/stoporder"
	"github.com/entrypointer/entrypointer/internal/supervisor/stopwhen"
	"github.com/entrypointer/entrypointer/internal/supervisor/tekton"
	"github.com/entrypointer/entrypointer/internal/supervisor/timeout"
	"github.com/entrypointer/entrypointer/internal/supervisor/trace"
	"github.com/entrypointer/entrypointer/pkg/exitcodes"
)

// The values of -mode.
const (
	modeSupervise = "supervise"
	modeExec      = "exec"
)

// options are the values of the command line: those of each feature.
type options struct {
	help, version bool
	mode          string
	argv          []string // everything after --
	successes     exitcodes.Set

	platforms  launch.Platforms
	env        launch.Edits
	handoff    handoff.Options
	tekton     tekton.Options
	hooks      hooks.Options
	timeout    timeout.Options
	ending     ending.Options
	report     report.Options
	pause      pause.Options
	presence   presence.Options
	startOrder startorder.Options
	pipe       pipe.Options
	stopOrder  stoporder.Options
	stopWhen   stopwhen.Options
	sidecars   sidecars.Options
	startup    startup.Options
	trace      trace.Options
}

func defaults() *options {
	return &options{
		mode: modeSupervise, hooks: hooks.Defaults(), ending: ending.Options{Grace: ending.DefaultGrace},
		presence: presence.Defaults(), stopOrder: stoporder.Defaults(), startup: startup.Defaults(),
	}
}

// flags returns all flags but -help and -version, in the order of -help.
func (o *options) flags() (f cmdline.Flags) {
	f = make(cmdline.Flags, 0, 80)
	f.Add("mode", "supervise|exec", `With supervise, the default, the supervisor stays the parent of the command.
With exec, the command replaces the supervisor: for a command that must be
PID 1.`, o.setMode)
	o.platforms.Flags(&f)
	o.handoff.Flags(&f)
	o.tekton.PostFlags(&f)
	o.env.Flags(&f)
	o.hooks.Flags(&f)
	o.timeout.Flags(&f)
	o.ending.Flags(&f)
	o.tekton.ResultFlags(&f)
	f.Add("success-exit-codes", "CODE[-CODE][,...]", `Exit with 0 instead of these exit codes of the command.`, o.setSuccesses)
	o.report.Flags(&f)
	o.pause.Flags(&f)
	o.startOrder.Flags(&f)
	o.presence.Flags(&f)
	o.startOrder.TargetFlags(&f)
	o.stopOrder.Flags(&f)
	o.stopWhen.Flags(&f)
	o.stopOrder.AliveFlags(&f)
	o.sidecars.Flags(&f)
	o.pipe.Flags(&f)
	o.startup.Flags(&f)
	o.trace.Flags(&f)
	if availableOutput != nil {
		f = append(f, availableOutput.Flags()...)
	}
	return f
}

func (o *options) setMode(value string) string {
	if value != modeSupervise && value != modeExec {
		return "unknown mode: use " + modeSupervise + " or " + modeExec
	}
	o.mode = value
	return ""
}

func (o *options) setSuccesses(value string) string {
	codes, ok := exitcodes.Parse(value)
	if !ok {
		return "use " + exitcodes.Syntax
	}
	o.successes = codes
	return ""
}

// availableOutput is the Output of this binary, nil if it has none.
var availableOutput output.Output

func capturesOutput() bool { return availableOutput != nil && availableOutput.Enabled() }

// waitsForOthers reports whether the command's start depends on other containers or targets.
func (o *options) waitsForOthers() bool { return o.startOrder.Waits() || o.pipe.IsPiped() }

// inOrder reports whether the command's start or end depends on another container, or
// another container's on this one.
func (o *options) inOrder() bool {
	return o.presence.Dir != "" || o.waitsForOthers() || o.isStopped()
}

// isStopped reports whether the flags say when the command is stopped.
func (o *options) isStopped() bool { return o.stopOrder.IsSet() || len(o.stopWhen.Ends) > 0 }

// reports returns whether the status can contain more than that the command runs.
func (o *options) hasStatus() bool {
	return capturesOutput() || o.waitsForOthers() || len(o.stopOrder.After) > 0 || len(o.stopWhen.Ends) > 0 || o.startup.Kinds() > 0 || o.handoff.Hold != 0 || len(o.hooks.Argvs) > 0 || o.pause.Places != nil || o.timeout.After != 0 || o.successes != nil ||
		o.report.File != "" || o.report.TerminationMessage != ""
}

// life returns what a life knows of the command line.
func (o *options) life() life.Options {
	l := life.Options{
		Reports: o.hasStatus(), StatusFile: o.report.File, StopSignal: o.stopOrder.StopSignal(),
		// These ask a process to end, according to signal(7). Another STOPSIGNAL of the
		// image is among them if -stop-signal names it; otherwise only the command
		// understands it.
		EndSignals: []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP},
	}
	if capturesOutput() {
		l.Output = availableOutput
	}
	if o.inOrder() && !slices.Contains(l.EndSignals, l.StopSignal) {
		l.EndSignals = append(l.EndSignals, l.StopSignal)
	}
	return l
}
