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
	stopSignal   syscall.Signal // 0 means SIGTERM
	stopWhen     []order.Dependency
}

var stopFlags = []flag{
	{"stop-after", "DIRECTORY", `When the whole pod is stopped, send the stop signal to the command only
when the container that has this -order-dir has ended. May be repeated.`, addStopAfter},
	{"stop-together", "", `Take each stop for one of the whole pod. Without, it has to be seen within
1s that another container is stopped as well.`, setStopTogether},
	{
		"stop-share", "DURATION", `Send it after that at the latest.`,
		setDuration(func(o *options) *time.Duration { return &o.stopShare }),
	},
	{"stop-signal", "NAME", `The signal that stops this container, if it isn't SIGTERM.`, setStopSignal},
	{"stop-when", "CONDITION:DIRECTORY", `End the command when the container that has this -order-dir is completed
or exited: by the stop signal, and after -grace-period by SIGKILL; and then
exit with 0. May be repeated; it takes all.`, addStopWhen(false)},
	{"stop-when-final", "CONDITION:DIRECTORY", `The same of a container that isn't restarted: if it ends in another way,
the command is ended as well.`, addStopWhen(true)},
}

// isStopped reports whether one of these flags is set.
func (o *stopOptions) isStopped() bool {
	return len(o.stopAfter) > 0 || o.stopTogether || o.stopShare != 0 || o.stopSignal != 0 || len(o.stopWhen) > 0
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
		return parseFailure("-mode="+modeExec, "not together with -stop-...: nobody is left to do that once the command has replaced us")
	case o.hold != 0:
		return parseFailure("-hold="+o.hold.String(), "not together with -stop-...: one who is held is a Tekton step, whose end is Tekton's")
	case len(o.stopAfter) > 0 && o.stopShare == 0:
		return parseFailure("-stop-after="+o.stopAfter[0], "the time for that is missing: use -stop-share as well, with less than the pod's terminationGracePeriodSeconds")
	case len(o.stopAfter) == 0 && (o.stopTogether || o.stopShare != 0):
		return parseFailure("-stop-...", "no container is named: use -stop-after as well")
	case o.orderDir == "" && len(o.stopAfter) == 0 && len(o.stopWhen) == 0:
		return parseFailure("-stop-signal="+signalName(o.stopSignal), "it is of no use: use -order-dir, -stop-after or -stop-when as well")
	}
	return nil
}

func addStopAfter(o *options, value string) string {
	if !order.IsDirectory(value) {
		return "no directory of a container: use an absolute path"
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
		return "no signal: use a name such as SIGQUIT or RTMIN+3, or a number"
	}
	o.stopSignal = sig
	return ""
}

func addStopWhen(final bool) func(*options, string) string {
	return func(o *options, value string) string {
		d, ok := order.ParseDependency(value)
		if !ok || d.Condition != order.IsCompleted && d.Condition != order.HasExited {
			return "no end of a container: use completed or exited, a colon, and an absolute path"
		}
		d.Final = final
		o.stopWhen = append(o.stopWhen, d)
		return ""
	}
}
