// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/order"
)

// stopOptions define when the command is stopped.
type stopOptions struct {
	stopAfter    []string // order directories of the containers that depend on this one
	stopTogether bool
	stopShare    time.Duration
	stopDelay    time.Duration
	stopSignal   syscall.Signal // 0 means SIGTERM
	stopWhen     []order.Dependency
}

var stopFlags = []flag{
	{"stop-after", "DIRECTORY", `When the whole pod is stopped, hold back the command's stop signal until
the container with this -order-dir has ended. May be repeated.`, addStopAfter},
	{"stop-together", "", `Take each stop for a stop of the whole pod. Without this flag, another
container must be stopped as well within 1s.`, setStopTogether},
	{
		"stop-share", "DURATION", `The longest time for -stop-after to hold back the stop signal. It begins
when the first of the observed containers was stopped.`,
		setDuration(func(o *options) *time.Duration { return &o.stopShare }),
	},
	{
		"stop-delay", "DURATION", `The time by which a preStop hook delays the stop signal. It is a part of
-stop-share.`,
		setDuration(func(o *options) *time.Duration { return &o.stopDelay }),
	},
	{"stop-signal", "NAME", `The stop signal of this container, SIGTERM by default.`, setStopSignal},
	{"stop-when", "CONDITION:DIRECTORY", `End the command when the container with this -order-dir has completed or
exited: send the stop signal, after -grace-period SIGKILL, and exit with 0.
May be repeated: the command ends when all conditions are met, or when one
of them can't be met any more (-final-exit-codes).`, addStopWhen},
}

// isStopped reports whether one of these flags is set.
func (o *stopOptions) isStopped() bool {
	return len(o.stopAfter) > 0 || o.stopTogether || o.stopShare != 0 || o.stopDelay != 0 || o.stopSignal != 0 || len(o.stopWhen) > 0
}

// stoppedWith returns the stop signal of this container.
func (o *stopOptions) stoppedWith() syscall.Signal {
	if o.stopSignal == 0 {
		return syscall.SIGTERM
	}
	return o.stopSignal
}

// checkStop rejects combinations of flags that can't work together.
func (o *options) checkStop() error {
	switch {
	case !o.isStopped():
		return nil
	case o.mode == modeExec:
		return parseFailure("-mode="+modeExec, "not together with -stop-...: no supervisor is left for that once the command has replaced it")
	case o.hold != 0:
		return parseFailure("-hold="+o.hold.String(), "not together with -stop-...: only a Tekton step is held, and Tekton stops it")
	case len(o.stopAfter) > 0 && o.stopShare == 0:
		return parseFailure("-stop-after="+o.stopAfter[0], "it needs a time limit: use -stop-share as well, with less than the pod's terminationGracePeriodSeconds")
	case len(o.stopAfter) == 0 && (o.stopTogether || o.stopShare != 0 || o.stopDelay != 0):
		return parseFailure("-stop-...", "no container is named: use -stop-after as well")
	case o.orderDir == "" && len(o.stopAfter) == 0 && len(o.stopWhen) == 0:
		return parseFailure("-stop-signal="+signalName(o.stopSignal), "it has no effect alone: use -order-dir, -stop-after or -stop-when as well")
	}
	return nil
}

func addStopAfter(o *options, value string) string {
	if !order.IsDirectory(value) {
		return "not an order directory: use an absolute path"
	}
	o.stopAfter = append(o.stopAfter, value)
	return ""
}

func setStopTogether(o *options, _ string) string {
	o.stopTogether = true
	return ""
}

func setStopSignal(o *options, value string) string {
	sig, err := parseSignal(value)
	if err != nil {
		return "not a signal: use a name such as SIGQUIT or RTMIN+3, or a number"
	}
	o.stopSignal = sig
	return ""
}

// parseEnd parses a dependency on the end of a container.
func parseEnd(value string) (d order.Dependency, ok bool) {
	d, ok = order.ParseDependency(value)
	return d, ok && (d.Condition == order.IsCompleted || d.Condition == order.HasExited)
}

func addStopWhen(o *options, value string) string {
	d, ok := parseEnd(value)
	if !ok {
		return "not an outcome of a container: use completed or exited, a colon, and an absolute path"
	}
	o.stopWhen = append(o.stopWhen, d)
	return ""
}
