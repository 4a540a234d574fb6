// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stoporder

import (
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/signals"
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/ending"
)

// Options define when the command is stopped.
type Options struct {
	After    []string // order directories of the containers that depend on this one
	Together bool
	Share    time.Duration
	Delay    time.Duration
	PodGrace time.Duration  // 0 means that of Kubernetes
	Signal   syscall.Signal // 0 means SIGTERM
	Alive    order.Probe
}

// podStopWindow is the time within which the kubelet sends the stop signal to all
// containers of a pod.
const podStopWindow = time.Second

// Defaults have the kubelet's shortest timeout of a probe, which is podStopWindow as well.
func Defaults() Options { return Options{Alive: order.Probe{Timeout: podStopWindow}} }

// Flags adds the flags that set o, but for those of the livenessProbe.
func (o *Options) Flags(f *cmdline.Flags) {
	f.Add("stop-after", "DIRECTORY", `When the whole pod is stopped, hold back the command's stop signal until
the container with this -order-dir has ended. May be repeated.`, o.addAfter)
	f.Add("stop-together", "", `Take each stop for a stop of the whole pod. Without this flag, another
container must be stopped as well within 1s, or a probe (-alive-exec and the
like) must succeed.`, cmdline.Switch(&o.Together))
	f.Add("stop-share", "DURATION", `The longest time for -stop-after to hold back the stop signal. It begins
when the first of the observed containers was stopped.`,
		cmdline.Duration(&o.Share))
	f.Add("stop-delay", "DURATION", `The time by which a preStop hook delays the stop signal. It is a part of
-stop-share.`,
		cmdline.Duration(&o.Delay))
	f.Add("stop-grace", "DURATION", `The pod's grace period, 30s by default. If an observed container was stopped
longer ago, and runs on, that wasn't a stop of the pod.`,
		cmdline.Duration(&o.PodGrace))
	f.Add("stop-signal", "NAME", `The stop signal of this container, SIGTERM by default.`, o.setSignal)
}

// AliveFlags adds the flags that set the livenessProbe.
func (o *Options) AliveFlags(f *cmdline.Flags) {
	f.Add("alive-exec", "WORD", `Run this program at the stop signal. If it exits with 0 within 1s, take the
stop for a stop of the whole pod: the kubelet stops no container alone whose
livenessProbe succeeds. Repeat the flag for each of the program's arguments.`, cmdline.ProbeWord(&o.Alive))
	f.Add("alive-tcp", "HOST:PORT", `As -alive-exec, if a TCP connection to this address succeeds. HOST is an IP
address, or empty for this pod.`, cmdline.ProbeTCP(&o.Alive))
	f.Add("alive-http", "http://HOST:PORT/PATH", `As -alive-exec, if a GET of this URL returns a code from 200 to 399.`, cmdline.ProbeHTTP(&o.Alive))
	f.Add("alive-http-header", "NAME: VALUE", `A header for -alive-http. May be repeated.`, cmdline.ProbeHeader(&o.Alive))
}

// IsSet reports whether one of these flags is set.
func (o *Options) IsSet() bool {
	return len(o.After) > 0 || o.saysHow() || o.Alive.Headers != nil || o.Signal != 0
}

// podGrace returns the grace period of the pod.
func (o *Options) podGrace() time.Duration {
	if o.PodGrace == 0 {
		return ending.DefaultGrace
	}
	return o.PodGrace
}

// StopSignal returns the stop signal of this container.
func (o *Options) StopSignal() syscall.Signal {
	if o.Signal == 0 {
		return syscall.SIGTERM
	}
	return o.Signal
}

// Check rejects flags that can't work together. If the container is alone, no other one
// observes it, and none ends it.
func (o *Options) Check(alone bool) error {
	switch {
	case len(o.After) > 0 && o.Share == 0:
		return cmdline.Failure("-stop-after="+o.After[0], "it needs a time limit: use -stop-share as well, with less than the pod's terminationGracePeriodSeconds")
	case len(o.After) == 0 && o.saysHow():
		return cmdline.Failure("-stop-...", "no container is named: use -stop-after as well")
	case len(o.After) == 0 && alone:
		return cmdline.Failure("-stop-signal="+signals.Name(o.Signal), "it has no effect alone: use -order-dir, -stop-after or -stop-when as well")
	}
	return cmdline.CheckProbe(&o.Alive, "alive", "livenessProbe")
}

// saysHow reports whether a flag says how the stop signal is held back.
func (o *Options) saysHow() bool {
	return o.Together || o.Share != 0 || o.Delay != 0 || o.PodGrace != 0 || o.Alive.Kinds() > 0
}

func (o *Options) addAfter(value string) string {
	if !order.IsDirectory(value) {
		return "not an order directory: use an absolute path"
	}
	o.After = append(o.After, value)
	return ""
}

func (o *Options) setSignal(value string) string {
	sig, err := cmdline.ParseSignal(value)
	if err != nil {
		return "not a signal: use a name such as SIGQUIT or RTMIN+3, or a number"
	}
	o.Signal = sig
	return ""
}
