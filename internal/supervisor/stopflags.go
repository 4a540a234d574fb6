// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/signals"
)

// stopOptions define when the command is stopped.
type stopOptions struct {
	stopAfter    []string // order directories of the containers that depend on this one
	stopTogether bool
	stopShare    time.Duration
	stopDelay    time.Duration
	stopGrace    time.Duration  // 0 means that of Kubernetes
	stopSignal   syscall.Signal // 0 means SIGTERM
	stopWhen     []order.Dependency
	alive        order.Probe
}

// defaultAliveProbe has the kubelet's shortest timeout, which is podStopWindow as well.
var defaultAliveProbe = order.Probe{Timeout: podStopWindow}

var stopFlags = []flag{
	{"stop-after", "DIRECTORY", `When the whole pod is stopped, hold back the command's stop signal until
the container with this -order-dir has ended. May be repeated.`, addStopAfter},
	{"stop-together", "", `Take each stop for a stop of the whole pod. Without this flag, another
container must be stopped as well within 1s, or a probe (-alive-exec and the
like) must succeed.`, setStopTogether},
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
	{
		"stop-grace", "DURATION", `The pod's grace period, 30s by default. If an observed container was stopped
longer ago, and runs on, that wasn't a stop of the pod.`,
		setDuration(func(o *options) *time.Duration { return &o.stopGrace }),
	},
	{"stop-signal", "NAME", `The stop signal of this container, SIGTERM by default.`, setStopSignal},
	{"stop-when", "CONDITION:DIRECTORY", `End the command when the container with this -order-dir has completed or
exited: send the stop signal, after -grace-period SIGKILL, and exit with 0.
May be repeated: the command ends when all conditions are met, or when one
of them can't be met any more (-final-exit-codes).`, addStopWhen},
	{"alive-exec", "WORD", `Run this program at the stop signal. If it exits with 0 within 1s, take the
stop for a stop of the whole pod: the kubelet stops no container alone whose
livenessProbe succeeds. Repeat the flag for each of the program's arguments.`, addProbeWord(aliveProbe)},
	{"alive-tcp", "HOST:PORT", `As -alive-exec, if a TCP connection to this address succeeds. HOST is an IP
address, or empty for this pod.`, setProbeTCP(aliveProbe)},
	{"alive-http", "http://HOST:PORT/PATH", `As -alive-exec, if a GET of this URL returns a code from 200 to 399.`, setProbeHTTP(aliveProbe)},
	{"alive-http-header", "NAME: VALUE", `A header for -alive-http. May be repeated.`, addProbeHeader(aliveProbe)},
}

func aliveProbe(o *options) *order.Probe { return &o.alive }

// isStopped reports whether one of these flags is set.
func (o *stopOptions) isStopped() bool {
	return len(o.stopAfter) > 0 || o.saysHow() || o.alive.Headers != nil || o.stopSignal != 0 || len(o.stopWhen) > 0
}

// podGrace returns the grace period of the pod.
func (o *stopOptions) podGrace() time.Duration {
	if o.stopGrace == 0 {
		return defaultGracePeriod
	}
	return o.stopGrace
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
	case len(o.stopAfter) == 0 && o.saysHow():
		return parseFailure("-stop-...", "no container is named: use -stop-after as well")
	case o.orderDir == "" && len(o.stopAfter) == 0 && len(o.stopWhen) == 0:
		return parseFailure("-stop-signal="+signals.Name(o.stopSignal), "it has no effect alone: use -order-dir, -stop-after or -stop-when as well")
	}
	return checkProbe(&o.alive, "alive", "livenessProbe")
}

// saysHow reports whether a flag says how the stop signal is held back.
func (o *stopOptions) saysHow() bool {
	return o.stopTogether || o.stopShare != 0 || o.stopDelay != 0 || o.stopGrace != 0 || o.alive.Kinds() > 0
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
