// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package presence

import (
	"time"

	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
)

// Options say where this container publishes its state, and when its command is ready.
type Options struct {
	Dir       string // the order directory, "" if no other container observes this one
	Heartbeat bool   // the pod's containers don't share a kernel
	Ready     order.Probe
}

// Defaults are the default times of the kubelet's probes, except for a shorter period.
func Defaults() Options {
	return Options{Ready: order.Probe{Period: time.Second, Timeout: time.Second}}
}

// Flags adds the flags that set o.
func (o *Options) Flags(f *cmdline.Flags) {
	f.Add("order-dir", "DIRECTORY", `Publish this container's state in this directory, for containers that
depend on it. No other container may write to the directory.`,
		cmdline.Path(&o.Dir))
	f.Add("order-heartbeat", "", `For containers that don't share a kernel: publish a heartbeat every 5 s,
and take a container without one for 30 s for dead.`, cmdline.Switch(&o.Heartbeat))
	f.Add("ready-exec", "WORD", `The command is ready once this program exits with 0. Repeat the flag for
each of the program's arguments.`, cmdline.ProbeWord(&o.Ready))
	f.Add("ready-tcp", "HOST:PORT", `The command is ready once a TCP connection to this address succeeds. HOST
is an IP address, or empty for this pod.`, cmdline.ProbeTCP(&o.Ready))
	f.Add("ready-http", "http://HOST:PORT/PATH", `The command is ready once a GET of this URL returns a code from 200 to 399.`, cmdline.ProbeHTTP(&o.Ready))
	f.Add("ready-http-header", "NAME: VALUE", `A header for -ready-http. May be repeated.`, cmdline.ProbeHeader(&o.Ready))
	f.Add("ready-file", "PATH", `The command is ready once this file exists, and was created, changed or
renamed after the command's start.`,
		cmdline.Path(&o.Ready.File))
	f.Add("ready-period", "DURATION", `The time from one readiness probe to the next, 1s by default.`,
		cmdline.Duration(&o.Ready.Period))
	f.Add("ready-timeout", "DURATION", `The longest time for each readiness probe, 1s by default.`,
		cmdline.Duration(&o.Ready.Timeout))
}

// Check rejects flags that can't work together.
func (o *Options) Check() error {
	kinds := o.Ready.Kinds()
	switch {
	case kinds > 1:
		return cmdline.Failure("-ready-...", "more than one readiness probe: use one of -ready-exec, -ready-tcp, -ready-http and -ready-file")
	case kinds > 0 && o.Dir == "":
		return cmdline.Failure("-ready-...", "no container can read the result: use -order-dir as well")
	case o.Ready.Headers != nil && o.Ready.HTTP == nil:
		return cmdline.Failure("-ready-http-header="+o.Ready.Headers[0], "no request has this header: use -ready-http as well")
	}
	return nil
}
